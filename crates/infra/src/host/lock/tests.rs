//! One process per state folder.

use super::StateLock;

#[test]
fn a_second_lock_is_refused_and_names_the_holder() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let held = StateLock::acquire(&state).unwrap();
    let error = StateLock::acquire(&state).unwrap_err().to_string();
    assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
    assert!(error.contains(&state.display().to_string()) && error.contains("--state-dir"), "{error}");
    drop(held);
    StateLock::acquire(&state).unwrap();
}

#[test]
fn what_an_ended_process_left_in_the_file_is_no_hindrance() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("lock"), "1\nsomething long that was there before\n").unwrap();
    let _held = StateLock::acquire(dir.path()).unwrap();
    assert_eq!(std::fs::read_to_string(dir.path().join("lock")).unwrap(), format!("{}\n", std::process::id()));
}

#[test]
fn a_lock_whose_folder_was_deleted_is_taken_again_unless_another_was_faster() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let mut held = StateLock::acquire(&state).unwrap();
    held.renew().unwrap();
    std::fs::remove_dir_all(&state).unwrap();
    held.renew().unwrap();
    assert!(StateLock::acquire(&state).is_err());
    std::fs::remove_dir_all(&state).unwrap();
    let other = StateLock::acquire(&state).unwrap();
    assert!(held.renew().is_err());
    drop(other);
}

#[test]
fn what_a_link_leads_to_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let (state, other) = (dir.path().join("state"), dir.path().join("other"));
    std::fs::create_dir(&state).unwrap();
    std::fs::write(&other, "somebody's").unwrap();
    std::os::unix::fs::symlink(&other, state.join("lock")).unwrap();
    let error = StateLock::acquire(&state).unwrap_err().to_string();
    assert!(error.contains(&state.join("lock").display().to_string()), "{error}");
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "somebody's");
}

#[test]
fn a_lock_that_a_dead_process_left_to_another_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let held = StateLock::acquire(dir.path()).unwrap();
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    std::fs::write(dir.path().join("lock"), format!("{}\n", gone.id())).unwrap();
    let state = dir.path().to_owned();
    let waits = std::thread::spawn(move || StateLock::acquire(&state).map(drop));
    std::thread::sleep(std::time::Duration::from_millis(100));
    drop(held);
    waits.join().unwrap().unwrap();
}

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

//! Records and `/proc`.

use super::*;

#[test]
fn a_record_is_read_as_it_was_written_and_nothing_else_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("envoy.pid");
    let record = Record { pid: 7, started: 123, identity: "abc".to_owned() };
    record.write(&path).unwrap();
    assert_eq!(Record::read(&path), Some(record));
    for text in ["", "7", "7 123", "7 123 abc more", "-7 123 abc", "7 x abc"] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(Record::read(&path), None, "{text:?}");
    }
}

#[test]
fn a_process_has_a_start_time_and_a_number_that_nobody_has_none() {
    let own = start_time(std::process::id()).unwrap();
    assert_eq!(start_time(std::process::id()), Some(own));
    assert_eq!(start_time(u32::MAX), None);
}

#[tokio::test]
async fn a_record_of_another_process_is_not_adopted() {
    let dir = tempfile::tempdir().unwrap();
    let layout = crate::host::Layout::open(dir.path(), None).unwrap();
    let paths = layout.prepare(&ir::FleetName::from("default/a")).unwrap();
    let pid = std::process::id();
    let record = Record { pid, started: start_time(pid).unwrap(), identity: "abc".to_owned() };
    record.write(&paths.record).unwrap();
    assert!(Process::adopt(&paths, &BTreeSet::new()).unwrap().is_none());
}

#[test]
fn a_process_that_sees_another_folder_under_the_same_path_is_not_of_this_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bootstrap.json");
    std::fs::write(&file, "{}").unwrap();
    let own = std::process::id();
    assert!(sees(own, &file) && sees(own, &dir.path().join("nothing")));
    let mut other = std::process::Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", "mount -t tmpfs none \"$0\" && echo mounted && exec cat"])
        .arg(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut word = [0; 8];
    std::io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut word).unwrap();
    assert!(!sees(other.id(), &file) && sees(other.id(), Path::new("/proc")));
    drop(other.stdin.take());
    other.wait().unwrap();
}

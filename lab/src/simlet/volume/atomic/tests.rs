//! A volume changes all at once.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::super::content::Entry;
use super::{Content, write};

fn content(files: &[(&str, &str)]) -> Content {
    let entry = |text: &str| Entry { bytes: text.as_bytes().to_vec(), mode: 0o600, owner: None };
    files.iter().map(|(path, text)| ((*path).to_owned(), entry(text))).collect()
}

#[test]
fn files_are_links_into_a_folder_that_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(path, &content(&[("a", "1"), ("b/c", "2")]), None).unwrap();
    let before = fs::read_link(path.join("..data")).unwrap();
    assert_eq!(fs::read_link(path.join("a")).unwrap().to_str(), Some("..data/a"));
    assert_eq!(fs::read_to_string(path.join("b/c")).unwrap(), "2");
    assert_eq!(fs::metadata(path.join("a")).unwrap().permissions().mode() & 0o777, 0o600);

    write(path, &content(&[("a", "3")]), None).unwrap();
    assert_ne!(fs::read_link(path.join("..data")).unwrap(), before);
    assert_eq!(fs::read_to_string(path.join("a")).unwrap(), "3");
    assert!(fs::symlink_metadata(path.join("b")).is_err());
    assert!(!path.join(before).exists());
}

#[test]
fn what_is_the_same_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(path, &content(&[("a", "1")]), None).unwrap();
    let before = fs::read_link(path.join("..data")).unwrap();
    write(path, &content(&[("a", "1")]), None).unwrap();
    assert_eq!(fs::read_link(path.join("..data")).unwrap(), before);
}

#[test]
fn a_group_may_read_what_it_owns() {
    let folder = tempfile::tempdir().unwrap();
    let own = Some(nix::unistd::getgid().as_raw());
    write(folder.path(), &content(&[("a", "1")]), own).unwrap();
    assert_eq!(fs::metadata(folder.path().join("a")).unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_path_that_leads_out_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(write(folder.path(), &content(&[("../a", "1")]), None).is_err());
}

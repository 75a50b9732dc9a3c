//! Which Envoy is taken, and what is said if there is none.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::*;

/// A program that another process writes: one that this process wrote cannot be run for as long as a process that
/// another test starts meanwhile holds the file open (ETXTBSY).
fn program(dir: &Path, says: &str) -> PathBuf {
    std::fs::create_dir_all(dir).unwrap();
    let path = dir.join("envoy");
    let mut write =
        Command::new("install").args(["-m", "755", "/dev/stdin"]).arg(&path).stdin(Stdio::piped()).spawn().unwrap();
    write!(write.stdin.take().unwrap(), "#!/bin/sh\necho '{says}'\n").unwrap();
    assert!(write.wait().unwrap().success());
    path
}

#[test]
fn the_version_is_read_from_envoys_line() {
    let check = |said, expect| assert_eq!(parse_version(said), expect, "{said:?}");
    check("\nenvoy  version: 9e55809/1.40.0/Clean/RELEASE/BoringSSL\n", Some("1.40.0"));
    check("envoy  version: 9e55809/1.41.0-dev/Modified/DEBUG/BoringSSL", Some("1.41.0-dev"));
    check("version: 1.40.0", None);
    check("version: a/\u{1b}[31m/b", None);
    check("", None);
}

#[tokio::test]
async fn an_old_or_broken_envoy_on_the_path_is_passed_over_for_the_projects() {
    let dir = tempfile::tempdir().unwrap();
    program(&dir.path().join("old"), "envoy  version: abc/1.39.2/Clean/RELEASE/BoringSSL");
    program(&dir.path().join("other"), "hello");
    let good = program(&dir.path().join("good"), "envoy  version: abc/1.40.7/Clean/RELEASE/BoringSSL");
    let path =
        std::env::join_paths([dir.path().join("old"), dir.path().join("none"), dir.path().join("other")]).unwrap();
    let mut search = EnvoySearch { named: None, path: Some(path), candidates: vec![good.clone()] };
    assert_eq!(find_envoy(&search).await.unwrap(), Envoy { path: good, version: "1.40.7".to_owned() });

    search.candidates.clear();
    let error = find_envoy(&search).await.unwrap_err().to_string();
    assert!(
        error.contains("is version 1.39.2, older than 1.40") && error.contains("does not say which Envoy"),
        "{error}"
    );
}

#[tokio::test]
async fn a_named_envoy_is_the_only_one_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let good = program(dir.path(), "envoy  version: abc/1.40.0/Clean/RELEASE/BoringSSL");
    let search = EnvoySearch { named: Some(dir.path().join("missing")), path: None, candidates: vec![good] };
    let error = find_envoy(&search).await.unwrap_err().to_string();
    assert!(error.contains("missing") && error.contains("make envoy"), "{error}");
}

#[test]
fn the_envoy_that_chancery_is_tested_with_is_known_without_being_run() {
    assert_eq!(known_release(&crate::host::tests::stage::envoy_program()), Some(ENVOY_VERSION));
    let dir = tempfile::tempdir().unwrap();
    let script = program(dir.path(), "envoy  version: abc/1.40.0/Clean/RELEASE/BoringSSL");
    assert_eq!(known_release(&script), None);
    assert_eq!(known_release(&std::env::current_exe().unwrap()), None);
}

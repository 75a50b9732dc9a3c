//! Logs as they are written and read.

use std::sync::Arc;

use super::query::Query;
use super::{Logs, MAX_LINE, Whose};

fn whose(uid: &str) -> Whose<'_> {
    Whose { namespace: "default", pod: "web", uid, container: "a" }
}

fn key() -> [String; 3] {
    ["default", "web", "a"].map(str::to_owned)
}

fn text(logs: &Logs, previous: bool) -> Option<String> {
    let lines = logs.find(&key(), previous)?.begin().read().unwrap();
    Some(String::from_utf8(Query::default().select(&lines, true)).unwrap())
}

#[tokio::test]
async fn lines_come_out_as_they_went_in() {
    let folder = tempfile::tempdir().unwrap();
    let logs = Logs::new(folder.path().to_owned());
    let long = "x".repeat(MAX_LINE + 7);
    let said = format!("one\n\n{long}\nlast");
    logs.open(&whose("1"), 0).unwrap().copy("stdout", said.as_bytes()).await;
    assert_eq!(text(&logs, false).unwrap(), format!("{said}\n"));
}

#[tokio::test]
async fn two_runs_are_kept_and_only_of_the_last_pod_of_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let logs = Logs::new(folder.path().to_owned());
    for attempt in 0..3 {
        let log = logs.open(&whose("1"), attempt).unwrap();
        log.copy("stdout", format!("run {attempt}").as_bytes()).await;
    }
    assert_eq!(text(&logs, false).unwrap(), "run 2\n");
    assert_eq!(text(&logs, true).unwrap(), "run 1\n");
    let _next = logs.open(&whose("2"), 0).unwrap();
    logs.remove("default", "web", "1");
    assert_eq!(text(&logs, false).unwrap(), "");
    assert_eq!(text(&logs, true), None);
}

#[tokio::test]
async fn who_follows_gets_each_line_and_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let logs = Logs::new(folder.path().to_owned());
    let writer = logs.open(&whose("1"), 0).unwrap();
    let mut cursor = logs.find(&key(), false).unwrap().begin();
    Arc::clone(&writer).copy("stdout", "one\n".as_bytes()).await;
    assert!(cursor.more().await);
    assert!(String::from_utf8(cursor.read().unwrap()).unwrap().ends_with("stdout F one\n"));
    drop(writer);
    assert!(!cursor.more().await);
}

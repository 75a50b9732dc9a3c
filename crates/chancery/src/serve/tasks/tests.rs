//! Ends of tasks.

use provider::file::Links;

use super::*;

#[tokio::test]
async fn a_task_that_ends_without_a_word_ends_the_process_with_its_name() {
    let mut tasks = Tasks::new();
    tasks.spawn("goes on", std::future::pending());
    tasks.spawn("stops", async { Ok(()) });
    assert!(tasks.first_end().await.to_string().contains("\"stops\" ended by itself"));
    tasks.spawn("fails", async { anyhow::bail!("no luck") });
    assert_eq!(tasks.first_end().await.to_string(), "no luck");
    tasks.spawn("breaks", async { panic!("a bug") });
    assert!(format!("{:#}", tasks.first_end().await).contains("a bug"));
    tasks.shutdown().await;
}

#[tokio::test]
async fn the_end_of_the_thread_that_follows_files_is_the_end_of_its_task() {
    let folder = tempfile::tempdir().expect("a folder");
    // Nobody receives: the thread ends with its first batch.
    let (inputs, _) = mpsc::channel(1);
    let task = follow(
        (&[folder.path().to_owned()], Links::WithinRoots),
        Past::default(),
        (inputs, SocketPaths::default()),
        CancellationToken::new(),
    )
    .expect("a thread");
    tokio::time::timeout(std::time::Duration::from_secs(20), task).await.expect("in time").expect("no error");
}

#[test]
fn what_files_do_not_have_any_more_is_told_in_one_line() {
    let key = |name: &str| api::ObjectKey::of(api::Kind::HttpRoute, "default", name);
    let batch = |changes| store::Batch { source: store::Source::File, changes, listed: true };
    assert_eq!(gone(&batch(vec![])), None);
    let told = |names: &[&str]| gone(&batch(names.iter().map(|name| Change::Delete(key(name))).collect()));
    assert_eq!(told(&["a"]).as_deref(), Some("removed, as no file has it any more: HTTPRoute default/a"));
    assert_eq!(
        told(&["a", "b"]).as_deref(),
        Some("removed, as no file has it any more: HTTPRoute default/a and 1 more")
    );
    let others = [(Kind::GatewayClass, "", "c"), (Kind::HttpRoute, "default", "a"), (Kind::Gateway, "default", "edge")];
    let others = others.map(|(kind, namespace, name)| Change::Delete(ObjectKey::of(kind, namespace, name)));
    assert_eq!(
        gone(&batch(others.into())).as_deref(),
        Some("removed, as no file has it any more: Gateway default/edge and 2 more")
    );
}

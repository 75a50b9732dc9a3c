//! Carrying lines from a file that grows.

use std::io::Write;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;
use crate::host::Layout;
use crate::host::tests::stage::DEADLINE;

struct Written {
    _dir: tempfile::TempDir,
    path: PathBuf,
    tail: Tail,
}

impl Written {
    fn new(before: &[u8]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("envoy.log");
        std::fs::write(&path, before).unwrap();
        let tail = Tail::new(&path, Kind::Log);
        Self { _dir: dir, path, tail }
    }

    /// Appends, and gives the lines that are carried then.
    fn then(&mut self, text: &[u8]) -> Vec<String> {
        OpenOptions::new().append(true).open(&self.path).unwrap().write_all(text).unwrap();
        let mut lines = Vec::new();
        while self.tail.read(&mut |_, line| lines.push(line.to_owned())) {}
        lines
    }
}

#[test]
fn new_lines_are_carried_once_and_half_a_line_waits_for_its_end() {
    let mut written = Written::new(b"from before\n");
    assert_eq!(written.then(b"one\ntwo\nthr"), ["one", "two"]);
    assert_eq!(written.then(b""), Vec::<String>::new());
    assert_eq!(written.then(b"ee\n\xff\n"), ["three", "\u{fffd}"]);
}

#[test]
fn an_endless_line_is_cut() {
    let mut written = Written::new(b"");
    let lines = written.then(&[vec![b'x'; 3 * CHUNK], b"\nnext\n".to_vec()].concat());
    assert_eq!(lines, ["x".repeat(MAX_LINE), "next".to_owned()]);
}

#[test]
fn a_file_that_has_grown_is_emptied_and_read_on() {
    let mut written = Written::new(b"");
    let line = [vec![b'x'; 1023], b"\n".to_vec()].concat();
    let many = line.repeat(usize::try_from(EMPTY_AT).unwrap() / line.len());
    assert_eq!(written.then(&many).len(), many.len() / line.len());
    assert_eq!(std::fs::metadata(&written.path).unwrap().len(), 0);
    assert_eq!(written.then(b"after\n"), ["after"]);
}

#[test]
fn a_file_that_grew_while_nobody_read_is_emptied_at_the_start() {
    let mut written = Written::new(&vec![b'x'; usize::try_from(EMPTY_AT).unwrap()]);
    assert_eq!(std::fs::metadata(&written.path).unwrap().len(), 0);
    assert_eq!(written.then(b"after\n"), ["after"]);
}

#[test]
fn a_file_that_was_removed_and_made_again_is_read_from_its_beginning() {
    let mut written = Written::new(b"");
    let mut old = OpenOptions::new().append(true).open(&written.path).unwrap();
    std::fs::remove_file(&written.path).unwrap();
    written.tail.reopen();
    std::fs::write(&written.path, b"new\n").unwrap();
    old.write_all(b"old\n").unwrap();
    assert_eq!(written.then(b"more\n"), ["old"], "whoever has it still writes there");
    written.tail.reopen();
    assert_eq!(written.then(b""), ["new", "more"]);
    written.tail.reopen();
    assert_eq!(written.then(b""), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_in_a_new_file_before_it_is_watched_is_carried_without_waiting_for_more() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::open(dir.path(), None).unwrap();
    let fleet = FleetName::from("default/edge".to_owned());
    layout.prepare(&fleet).unwrap();
    let paths = layout.paths(&fleet);
    let (tell, mut told) = mpsc::channel(2);
    let following = follow(&paths, |_, line| tell.try_send(line.to_owned()).unwrap());
    let writing = async {
        std::fs::write(&paths.log, "old\n").unwrap();
        assert_eq!(told.recv().await.as_deref(), Some("old"));
        // Before it can look again.
        std::fs::remove_file(&paths.log).unwrap();
        std::fs::write(&paths.log, "new\n").unwrap();
        assert_eq!(told.recv().await.as_deref(), Some("new"));
    };
    tokio::select! {
        biased;
        () = following => {}
        written = timeout(DEADLINE, writing) => written.expect("the line is carried"),
    }
}

#[test]
fn the_last_words_are_the_last_grave_line() {
    let said = |text: &str| Written::new(text.as_bytes()).last_words();
    assert_eq!(said("[critical][main] no\n[info][main] exiting\n").as_deref(), Some("no"));
    let crash = "[critical][assert] assert failure: too many\n[critical][backtrace] Caught Aborted\n[critical][backtrace] #0: [0x7f]\n";
    assert_eq!(said(crash).as_deref(), Some("assert failure: too many"));
    assert_eq!(said("PARSE ERROR: Argument: --x\n").as_deref(), Some("PARSE ERROR: Argument: --x"));
    assert_eq!(
        said("[error][config] got private_key: abc\n").as_deref(),
        Some("(a line that may hold a secret is not shown)")
    );
    assert_eq!(said(""), None);
}

impl Written {
    fn last_words(&self) -> Option<String> {
        last_words(&self.path)
    }
}

#[test]
fn what_envoy_warns_of_again_and_again_is_said_once_a_minute() {
    let (mut repeats, start) = (Repeats::default(), Instant::now());
    let after = |seconds| start + Duration::from_secs(seconds);
    assert!(repeats.is_news("cannot bind", start) && repeats.is_news("another", start));
    assert!(!repeats.is_news("cannot bind", after(15)) && !repeats.is_news("cannot bind", after(59)));
    assert!(repeats.is_news("cannot bind", after(61)));
}

#[test]
fn lines_with_tokens_are_not_carried() {
    for line in [
        "'authorization', 'Bearer 8ebf0123456789abcdef'",
        "'Proxy-Authorization', 'Basic YTpi'",
        "AUTHORIZATION: x",
        "'cookie', 'session=1'",
        "initial_metadata bearer 8ebf",
        "-----BEGIN PRIVATE KEY-----",
    ] {
        assert_eq!(redact(line), "(a line that may hold a secret is not shown)", "{line}");
    }
    for line in ["':path', '/'", "the author of this", "cluster x is ready"] {
        assert_eq!(redact(line), line);
    }
}

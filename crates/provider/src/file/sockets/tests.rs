//! Links on the way to a socket.

use std::os::unix::fs::symlink;

use std::path::Path;

use api::Kind;

use super::*;
use crate::file::resolve::MAX_NAMES;
use crate::file::{Input, load_inputs};

/// A batch with a `Backend` that names these paths.
fn batch(name: &str, paths: &[&str]) -> Batch {
    let endpoints: String = paths.iter().map(|path| format!("  - unix: {{path: {path:?}}}\n")).collect();
    let text = format!(
        "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: Backend\nmetadata: {{name: {name}}}\nspec:\n  endpoints:\n{endpoints}"
    );
    let loaded = load_inputs(&[Input::Text { name: "text".into(), bytes: text.into_bytes() }]);
    let changes = loaded.objects.into_iter().map(|(object, origin)| Change::Apply(object, origin)).collect();
    Batch { source: Source::File, changes, listed: true }
}

/// Longest time for a fact to come true; reached only by a test that fails.
const DEADLINE: Duration = Duration::from_secs(20);

/// The paths in a batch, each with its target.
fn said(batch: &Batch) -> Vec<(String, Option<String>)> {
    let said = |change: &Change| match change {
        Change::SocketPath(path, leads) => {
            let text = |target: &SocketTarget| target.as_ref().unwrap_or_else(|words| words).to_string();
            Some((path.to_string(), leads.as_ref().map(text)))
        }
        _ => None,
    };
    batch.changes.iter().filter_map(said).collect()
}

/// Looks until a path is said to lead to something with this text.
fn until_leads(sockets: &SocketPaths, path: &str, text: &str) {
    let end = Instant::now() + DEADLINE;
    loop {
        let said = sockets.look_again().map(|batch| said(&batch)).unwrap_or_default();
        if said.iter().any(|(of, leads)| of == path && leads.as_deref().is_some_and(|leads| leads.contains(text))) {
            return;
        }
        assert!(Instant::now() < end, "{path} leads to no {text}: {said:?}");
        std::thread::yield_now();
    }
}

#[test]
fn path_leads_where_its_links_lead_and_is_looked_at_again() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().canonicalize().unwrap();
    let at = |name: &str| place.join(name).display().to_string();
    std::fs::create_dir(at("state")).unwrap();
    std::fs::write(at("state/xds.sock"), "").unwrap();
    symlink(at("state"), at("link")).unwrap();
    symlink(at("gone/later"), at("broken")).unwrap();
    symlink("state/xds.sock", at("file")).unwrap();
    let sockets = SocketPaths::default();
    for (path, leads) in [
        ("link/xds.sock", "state/xds.sock"),
        ("link/not/yet", "state/not/yet"),
        ("file", "state/xds.sock"),
        ("broken", "gone/later"),
        ("none/a", "none/a"),
    ] {
        // As at the start: then a batch waits for its paths also on a machine that is busy.
        let mut batch = Batch { listed: false, ..batch("one", &[&at(path)]) };
        sockets.add(&mut batch);
        assert_eq!(said(&batch).first(), Some(&(at(path), Some(at(leads)))), "{path}");
    }
    // What was said is said twice: the two may overtake each other.
    assert!(sockets.look_again().is_some() && sockets.look_again().is_none());
    symlink(at("state"), at("none")).unwrap();
    until_leads(&sockets, &at("none/a"), &at("state/a"));
}

#[test]
fn path_over_costly_links_is_refused_after_few_names() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("a")).unwrap();
    symlink("a/../".repeat(300), folder.path().join("link")).unwrap();
    let path = format!("{}/link/a.sock", folder.path().display());
    let looked = looks::look(&path, &|_| false, &mut |_| Ok(()));
    assert!(looked.target.unwrap_err().contains("more than 40 links or 256 names"));
    assert!(looked.names <= MAX_NAMES + 1, "{}", looked.names);
    // It waits longer for the next look than one that costs little.
    let sockets = SocketPaths::default();
    sockets.add(&mut batch("one", &[&path, "/a"]));
    let state = sockets.0.state();
    assert!(state.paths[&*path].due > state.paths["/a"].due + Duration::from_secs(10));
}

/// Looks that reach a name of this text wait until the sender is dropped, as where a file system does not answer.
fn stuck(sockets: &SocketPaths, paths: &[&str]) -> std::sync::mpsc::Sender<()> {
    let (end, waits) = std::sync::mpsc::channel::<()>();
    let waits = Mutex::new(waits);
    *sockets.0.stall.lock().unwrap() = Some(Arc::new(move |next: &Path| {
        if next.ends_with("dead") {
            let _ended = waits.lock().unwrap().recv();
        }
    }));
    sockets.add(&mut batch("dead", paths));
    end
}

#[test]
fn path_that_does_not_answer_holds_up_no_batch_and_no_other_path() {
    let sockets = SocketPaths::default();
    let mut first = batch("good", &["/good/0"]);
    sockets.add(&mut first);
    assert_eq!(said(&first), [("/good/0".to_owned(), Some("/good/0".to_owned()))]);
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().canonicalize().unwrap().display().to_string();
    std::fs::create_dir(folder.path().join("dead")).unwrap();
    let dead: Vec<String> = (0..100).map(|number| format!("{at}/dead/{number}")).collect();
    let end = stuck(&sockets, &dead.iter().map(String::as_str).collect::<Vec<_>>());
    // Its thread never answers, and this one goes on.
    for number in 0..100 {
        let mut batch = Batch { source: Source::File, changes: Vec::new(), listed: true };
        sockets.add(&mut batch);
        assert_eq!(said(&batch), [], "{number}");
    }
    let mut other = batch("other", &["/good/1"]);
    sockets.add(&mut other);
    until_leads(&sockets, "/good/1", "/good/1");
    until_leads(&sockets, &dead[7], "does not answer");
    assert_eq!(sockets.0.state().looks.threads(), 1, "one thread for one place");
    drop(end);
    until_leads(&sockets, &dead[7], &dead[7]);
}

#[test]
fn path_that_led_to_a_refused_place_is_refused_for_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().canonicalize().unwrap().join(name).display().to_string();
    std::fs::create_dir(at("own")).unwrap();
    std::fs::create_dir(at("harmless")).unwrap();
    let turn = |target: &str| {
        symlink(at(target), at("new")).unwrap();
        std::fs::rename(at("new"), at("link")).unwrap();
    };
    turn("harmless");
    let own = at("own");
    let sockets = SocketPaths::new(move |path| path.starts_with(&own));
    let path = at("link/a.sock");
    sockets.add(&mut batch("one", &[&path]));
    turn("own");
    until_leads(&sockets, &path, &at("own/a.sock"));
    turn("harmless");
    until_leads(&sockets, &path, "lately, where no Backend may lead");
    // Another name of the Backend changes nothing.
    sockets.add(&mut Batch {
        source: Source::File,
        changes: vec![Change::Delete(ObjectKey::of(Kind::Backend, "default", "one"))],
        listed: true,
    });
    let mut again = batch("two", &[&path]);
    sockets.add(&mut again);
    assert!(said(&again)[0].1.as_ref().unwrap().contains("lately"), "{:?}", said(&again));
}

#[test]
fn hold_ends_after_its_time_and_grows_with_each_relapse() {
    let (path, led, now) = (Arc::from("/link"), Arc::<str>::from("/own"), Instant::now());
    let mut holds = Holds::default();
    let after = |seconds: u64| now + Duration::from_secs(seconds);
    assert_eq!(holds.judge(&path, Ok(led.clone()), true, now), Ok(led.clone()));
    assert!(holds.judge(&path, Ok("/good".into()), false, after(59)).is_err());
    assert!(holds.judge(&path, Ok("/good".into()), false, after(60)).is_ok());
    assert_eq!(holds.judge(&path, Ok(led.clone()), true, after(61)), Ok(led));
    assert!(holds.judge(&path, Ok("/good".into()), false, after(180)).is_err());
    assert!(holds.judge(&path, Ok("/good".into()), false, after(181)).is_ok());
}

#[test]
fn hold_is_not_ended_by_many_other_paths() {
    let (led, now) = (Arc::<str>::from("/own"), Instant::now());
    let mut holds = Holds::default();
    let path = |number: usize| Arc::<str>::from(format!("/link/{number}"));
    let after = |seconds: u64| now + Duration::from_secs(seconds);
    for number in 0..2 * holds::MAX_HOLDS {
        let said = holds.judge(&path(number), Ok(led.clone()), true, now);
        assert_eq!(said.is_ok(), number < holds::MAX_HOLDS, "{number}");
    }
    let mut turned =
        |number: usize, seconds: u64| holds.judge(&path(number), Ok("/good".into()), false, after(seconds));
    assert!(turned(0, 1).unwrap_err().contains("/own"));
    assert!(turned(holds::MAX_HOLDS, 1).unwrap_err().contains("other paths"), "nothing is remembered of it");
    assert!(holds.judge(&Arc::from("/plain"), Ok("/plain".into()), false, after(1)).is_ok());
    assert!(holds.judge(&path(9_999), Ok("/good".into()), false, after(120)).is_ok(), "all are over");
}

#[test]
fn look_that_panics_costs_its_path_only() {
    let sockets = SocketPaths::default();
    *sockets.0.stall.lock().unwrap() = Some(Arc::new(|next: &Path| assert!(!next.ends_with("panic"))));
    let mut first = batch("one", &["/no-such-folder", "/panic", "/other"]);
    sockets.add(&mut first);
    until_leads(&sockets, "/panic", "a bug in Chancery");
    let end = Instant::now() + DEADLINE;
    while sockets.0.state().looks.threads() > 0 {
        assert!(Instant::now() < end, "its thread keeps its place");
        std::thread::yield_now();
    }
    // It is looked at again, and so are others.
    *sockets.0.stall.lock().unwrap() = None;
    sockets.0.state().paths.values_mut().for_each(|known| known.due = Instant::now());
    until_leads(&sockets, "/panic", "/panic");
}

#[test]
fn path_is_known_as_long_as_a_backend_names_it() {
    let sockets = SocketPaths::default();
    let path = "/no-such-folder/a";
    for name in ["one", "two"] {
        let mut batch = batch(name, &[path]);
        sockets.add(&mut batch);
        assert_eq!(said(&batch), [(path.to_owned(), Some(path.to_owned()))]);
    }
    let delete = |name: &str| {
        let key = ObjectKey::of(Kind::Backend, "default", name);
        let mut batch = Batch { source: Source::File, changes: vec![Change::Delete(key)], listed: true };
        sockets.add(&mut batch);
        said(&batch)
    };
    assert_eq!(delete("one"), []);
    assert_eq!(delete("two"), [(path.to_owned(), None)]);
}

#[test]
fn relative_path_is_not_followed() {
    let mut batch = batch("one", &["relative/xds.sock", ""]);
    SocketPaths::read_once().add(&mut batch);
    assert_eq!(said(&batch).first(), Some(&("relative/xds.sock".to_owned(), Some("relative/xds.sock".to_owned()))));
}

#[test]
fn files_that_are_read_once_wait_for_a_slow_path() {
    let sockets = SocketPaths::read_once();
    *sockets.0.stall.lock().unwrap() = Some(Arc::new(|_: &Path| std::thread::sleep(3 * super::NAME_AT_START)));
    let mut batch = batch("one", &["/slow"]);
    sockets.add(&mut batch);
    assert_eq!(said(&batch), [("/slow".to_owned(), Some("/slow".to_owned()))]);
}

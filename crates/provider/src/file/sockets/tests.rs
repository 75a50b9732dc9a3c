//! Links on the way to a socket.

use std::os::unix::fs::symlink;

use api::Kind;

use super::*;
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

/// The paths in a batch, each with its target.
fn said(batch: &Batch) -> Vec<(String, Option<String>)> {
    let said = |change: &Change| match change {
        Change::SocketPath(path, leads) => Some((path.to_string(), leads.as_deref().map(str::to_owned))),
        _ => None,
    };
    batch.changes.iter().filter_map(said).collect()
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
        let mut batch = batch("one", &[&at(path)]);
        sockets.add(&mut batch);
        assert_eq!(said(&batch).first(), Some(&(at(path), Some(at(leads)))), "{path}");
    }
    assert!(sockets.look_again().is_none());
    symlink(at("state"), at("none")).unwrap();
    let batch = sockets.look_again().unwrap();
    assert_eq!(said(&batch), [(at("none/a"), Some(at("state/a")))]);
    assert!(sockets.look_again().is_none());
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
    SocketPaths::default().add(&mut batch);
    assert_eq!(said(&batch).first(), Some(&("relative/xds.sock".to_owned(), Some("relative/xds.sock".to_owned()))));
}

//! Whatever happens to a folder, the watched state ends as what a fresh load of the folder gives.

use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;
use crate::file::spot::Spot;

/// Places that the steps use: visible, hidden and backup files at several depths, and directories.
const FILES: [&str; 9] =
    ["a.yaml", "b.yaml", "a.yaml~", ".a.yaml", "d/a.yaml", "d/b.json", "d/e/a.yaml", ".h/a.yaml", "x/a.yaml"];
const DIRECTORIES: [&str; 6] = ["d", "d/e", "x", ".h", "l", "d/l"];

#[derive(Debug, Clone)]
enum Step {
    /// Written in place.
    Write(usize, Content),
    /// Written beside and renamed into place.
    Replace(usize, Content),
    Rename(usize, usize),
    RenameDirectory(usize, usize),
    Delete(usize),
    DeleteDirectory(usize),
    MakeDirectory(usize),
    /// A link at a file's place to another file's.
    Link(usize, usize),
    /// The same, renamed into place over whatever is there.
    SwapLink(usize, usize),
    LinkDirectory(usize, usize),
    /// Written under a hidden name and linked into place. (The names of a file that is linked twice do not hear of what is
    /// written through the other one: so it is with inotify.)
    HardLink(usize, Content),
    /// Lets the watcher see what happened so far, so that steps meet states of different ages.
    Settle,
}

/// Names of objects; 0 is a broken document.
type Content = Vec<u8>;

fn step() -> impl Strategy<Value = Step> {
    let file = || 0..FILES.len();
    let directory = || 0..DIRECTORIES.len();
    let content = || prop::collection::vec(0..6u8, 0..4);
    prop_oneof![
        4 => (file(), content()).prop_map(|(at, content)| Step::Write(at, content)),
        4 => (file(), content()).prop_map(|(at, content)| Step::Replace(at, content)),
        4 => (file(), file()).prop_map(|(from, to)| Step::Rename(from, to)),
        3 => (directory(), directory()).prop_map(|(from, to)| Step::RenameDirectory(from, to)),
        2 => file().prop_map(Step::Delete),
        2 => directory().prop_map(Step::DeleteDirectory),
        2 => directory().prop_map(Step::MakeDirectory),
        2 => (file(), file()).prop_map(|(from, to)| Step::Link(from, to)),
        2 => (file(), file()).prop_map(|(from, to)| Step::SwapLink(from, to)),
        3 => (directory(), directory()).prop_map(|(from, to)| Step::LinkDirectory(from, to)),
        2 => (file(), content()).prop_map(|(at, content)| Step::HardLink(at, content)),
        2 => Just(Step::Settle),
    ]
}

fn text(content: &Content, version: usize) -> String {
    let document = |name: &u8| match name {
        0 => "broken: [\n".to_owned(),
        name => namespace(&format!("n{name}"), version),
    };
    join(&content.iter().map(document).collect::<Vec<_>>())
}

/// Steps may fail, as when a file is not there: then nothing happens.
fn take(folder: &TempDir, version: usize, step: &Step, watched: &mut Watched) {
    let file = |at: usize| folder.path().join(FILES[at]);
    let directory = |at: usize| folder.path().join(DIRECTORIES[at]);
    let new = folder.path().join(".new");
    let _ = match step {
        Step::Write(at, content) => fs::write(file(*at), text(content, version)),
        Step::Replace(at, content) => {
            let _ = fs::remove_file(&new);
            fs::write(&new, text(content, version)).and_then(|()| fs::rename(&new, file(*at)))
        }
        Step::Rename(from, to) => fs::rename(file(*from), file(*to)),
        Step::RenameDirectory(from, to) => fs::rename(directory(*from), directory(*to)),
        Step::Delete(at) => fs::remove_file(file(*at)),
        Step::DeleteDirectory(at) => fs::remove_dir_all(directory(*at)).or_else(|_| fs::remove_file(directory(*at))),
        Step::MakeDirectory(at) => fs::create_dir(directory(*at)),
        Step::Link(at, to) => symlink(file(*to), file(*at)),
        Step::SwapLink(at, to) => {
            let _ = fs::remove_file(&new);
            symlink(file(*to), &new).and_then(|()| fs::rename(&new, file(*at)))
        }
        Step::LinkDirectory(at, to) => symlink(directory(*to), directory(*at)),
        Step::HardLink(at, content) => {
            let hidden = folder.path().join(format!(".linked-{version}"));
            fs::write(&hidden, text(content, version)).and_then(|()| fs::hard_link(hidden, file(*at)))
        }
        Step::Settle => {
            replace(folder, "settle.yaml", namespace("settle", version));
            let version = version.to_string();
            watched.until(|state| state.version("settle") == Some(&version));
            Ok(())
        }
    };
}

/// Puts good documents where broken ones are: what those keep, a fresh load cannot know.
fn mend(folder: &TempDir) {
    for name in FILES {
        let path = folder.path().join(name);
        if fs::read_to_string(&path).is_ok_and(|text| text.contains("broken")) {
            let mended = fs::read_to_string(&path).unwrap().replace("broken: [\n", &namespace("mended", 1));
            fs::write(&path, mended).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_watched_state_ends_as_a_fresh_load(steps in prop::collection::vec(step(), 1..40)) {
        let folder = TempDir::new().unwrap();
        for directory in ["d/e", "x", ".h"] {
            fs::create_dir_all(folder.path().join(directory)).unwrap();
        }
        let mut watched = Watched::folder(&folder);
        for (version, step) in steps.iter().enumerate() {
            take(&folder, version, step, &mut watched);
        }
        mend(&folder);
        watched.settle(&folder);
        let fresh = State::of(folder.path(), &[folder.path().to_owned()]);
        let end = Instant::now() + DEADLINE;
        while watched.state != fresh {
            let left = end.saturating_duration_since(Instant::now());
            prop_assert!(watched.next(left).is_some(), "watched {:#?}\nfresh {:#?}", watched.state, fresh);
        }
    }

    #[test]
    fn places_are_ordered_as_their_paths_are(pairs in prop::collection::vec((path(), path()), 1..20)) {
        let spot = |path: &str| path.split('/').fold(Spot::root(0, "."), |spot, name| spot.join(name.as_ref()));
        for (one, other) in pairs {
            prop_assert_eq!(spot(&one).cmp(&spot(&other)), Path::new(&one).cmp(Path::new(&other)), "{} {}", one, other);
            prop_assert_eq!(spot(&one) == spot(&other), one == other);
        }
    }
}

/// A path of few names, so that many begin alike; some of their characters come before the slash.
fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "a.yaml", "a-b", "ab", "a b", "\u{1}", "\u{e4}"]);
    prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"))
}

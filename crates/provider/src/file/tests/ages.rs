//! Ages of objects in real folders: no newcomer is older, and no edit, move or restart makes an object younger.

use api::meta::FirstSeen;
use api::{Kind, Timestamp};

use super::*;

/// Half a day before the end of what is remembered, so that nothing of a test is forgotten.
fn clock() -> Timestamp {
    Timestamp(1_000_000)
}

/// A route; `more` is added to its metadata.
fn route(namespace: &str, more: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: r, namespace: {namespace}{more}}}\nspec:\n  parentRefs: [{{name: edge}}]\n"
    )
}

const OLD: &str = ", creationTimestamp: \"1999-01-01T00:00:00Z\"";

/// A process, and the ages of the routes that it handed on, by namespace.
struct Process {
    watched: Watched,
    ages: BTreeMap<String, FirstSeen>,
}

struct Lives {
    folders: [TempDir; 2],
    state: TempDir,
}

impl Lives {
    fn new() -> Self {
        Self { folders: [TempDir::new().unwrap(), TempDir::new().unwrap()], state: TempDir::new().unwrap() }
    }

    fn begin(&self) -> Process {
        let ages = Some(AgeFile { path: self.state.path().join("ages"), clock });
        let roots = self.folders.each_ref().map(|folder| folder.path().to_owned());
        let watched = Watched::after(Past { ages, ..Past::default() }, &self.folders[0], &roots);
        let mut process = Process { watched, ages: BTreeMap::new() };
        process.until(|process| process.watched.listed);
        process
    }
}

impl Process {
    #[track_caller]
    fn until(&mut self, what: impl Fn(&Self) -> bool) {
        let end = Instant::now() + DEADLINE;
        while !what(self) {
            let left = end.saturating_duration_since(Instant::now());
            let batch = self.watched.batches.recv_timeout(left).expect("it did not come true");
            self.watched.listed = batch.listed;
            for change in batch.changes {
                match change {
                    Change::Apply(object, _) if object.kind() == Kind::HttpRoute => {
                        let meta = object.meta();
                        self.ages.insert(meta.namespace().to_owned(), meta.first_seen.expect("a route has an age"));
                    }
                    Change::Delete(key) => drop(self.ages.remove(key.namespace())),
                    _ => {}
                }
            }
        }
    }

    /// The namespaces of routes, the oldest first; equal ones by name.
    fn order(&self) -> Vec<&str> {
        let mut order: Vec<_> = self.ages.iter().map(|(namespace, age)| (*age, namespace.as_str())).collect();
        order.sort();
        order.into_iter().map(|(_, namespace)| namespace).collect()
    }
}

#[test]
fn newcomers_are_younger_than_what_is_there_over_a_restart() {
    let lives = Lives::new();
    write(&lives.folders[0], "b.yaml", route("bank", ""));
    let mut process = lives.begin();
    write(&lives.folders[0], "a.yaml", route("aaa", ""));
    process.until(|process| process.ages.contains_key("aaa"));
    write(&lives.folders[0], "z.yaml", route("zzz", OLD));
    process.until(|process| process.ages.contains_key("zzz"));
    assert_eq!(process.order(), ["bank", "aaa", "zzz"]);
    drop(process);
    // No process looks.
    write(&lives.folders[0], "0.yaml", route("0aa", OLD));
    assert_eq!(lives.begin().order(), ["bank", "aaa", "zzz", "0aa"]);
}

#[test]
fn the_first_start_has_the_order_of_timestamps_and_names() {
    let lives = Lives::new();
    write(&lives.folders[0], "all.yaml", join(&[route("c", ""), route("a", ""), route("d", OLD)]));
    write(&lives.folders[1], "z.yaml", route("b", ""));
    assert_eq!(lives.begin().order(), ["d", "a", "b", "c"]);
}

#[test]
fn edits_moves_and_restarts_leave_an_age_alone() {
    let lives = Lives::new();
    let [one, other] = &lives.folders;
    write(one, "b.yaml", route("bank", ""));
    let mut process = lives.begin();
    write(one, "a.yaml", route("aaa", ""));
    process.until(|process| process.ages.contains_key("aaa"));
    let age = process.ages["bank"];
    // An editor, with a timestamp; then one that keeps a backup; then moved to another root.
    replace(one, "b.yaml", route("bank", OLD));
    process.until(|process| process.ages.contains_key("bank"));
    fs::rename(one.path().join("b.yaml"), one.path().join("b.yaml~")).unwrap();
    replace(one, "b.yaml", route("bank", ", labels: {a: b}"));
    fs::rename(one.path().join("b.yaml"), other.path().join("c.yaml")).unwrap();
    write(one, "z.yaml", route("zzz", ""));
    process.until(|process| process.ages.contains_key("zzz"));
    assert_eq!((process.ages["bank"], process.order()), (age, vec!["bank", "aaa", "zzz"]));
    // Gone for a while that was seen.
    fs::rename(other.path().join("c.yaml"), other.path().join("c.bak")).unwrap();
    process.until(|process| !process.ages.contains_key("bank"));
    drop(process);
    let mut process = lives.begin();
    assert_eq!(process.order(), ["aaa", "zzz"]);
    fs::rename(other.path().join("c.bak"), other.path().join("c.yaml")).unwrap();
    process.until(|process| process.ages.contains_key("bank"));
    assert_eq!(process.order(), ["bank", "aaa", "zzz"]);
}

#[test]
fn a_start_without_any_ages_says_why() {
    let lives = Lives::new();
    fs::write(lives.state.path().join("ages"), "no ages\n").unwrap();
    let past = Past { ages: Some(AgeFile { path: lives.state.path().join("ages"), clock }), ..Past::default() };
    let roots = [lives.folders[0].path().to_owned()];
    let error = watch((&roots, Links::WithinRoots), past, |_| ControlFlow::Continue(())).unwrap_err().to_string();
    assert!(error.contains("none of its 1 lines is intact") && error.contains("remove it"), "{error}");
}

//! Files that take long to read: others count meanwhile, and of the costly one its latest version.

use super::*;
use crate::file::report::MAX_PROBLEMS;

/// An object with a number of fields that the API does not have.
fn unknown_fields(name: &str, count: usize) -> String {
    let fields: String = (0..count).map(|number| format!("k{number}: 1\n")).collect();
    format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n{fields}")
}

/// Documents of a costly file.
const COUNT: usize = 200;

/// Documents that together take a second where the program is not optimised.
fn costly(version: u32) -> String {
    let many: Vec<String> = (0..COUNT)
        .map(|number| {
            namespace(&format!("c{number}"), version) + &(0..40).map(|at| format!("nam{at}: 1\n")).collect::<String>()
        })
        .collect();
    join(&many)
}

#[test]
fn edits_of_others_count_while_a_costly_file_is_read() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", namespace("a", 0));
    let mut watched = Watched::folder(&folder);
    replace(&folder, "costly.yaml", costly(1));
    for version in 1..50 {
        replace(&folder, "a.yaml", namespace("a", version));
        let version = version.to_string();
        watched.until_while(
            |state| state.version("a") == Some(&version),
            |state| state.objects.len() == 1 || state.objects.len() == COUNT + 1,
        );
    }
    watched.until(|state| state.objects.len() == COUNT + 1);
    assert_eq!(watched.state.problems["costly.yaml"].len(), MAX_PROBLEMS + 1);
}

#[test]
fn the_latest_version_of_a_costly_file_counts_and_a_deleted_one_gives_nothing() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", namespace("a", 0));
    let mut watched = Watched::folder(&folder);
    for version in 1..=5 {
        replace(&folder, "costly.yaml", costly(version));
    }
    let never_back = |state: &State| state.version("c0").is_none_or(|version| version != "last");
    watched.until_while(|state| state.version("c199") == Some("5"), never_back);
    replace(&folder, "costly.yaml", costly(6));
    // It is cheap from here on.
    replace(&folder, "costly.yaml", namespace("c0", "last"));
    watched.until(|state| state.version("c0") == Some("last") && state.objects.len() == 2);
    replace(&folder, "costly.yaml", costly(7));
    fs::remove_file(folder.path().join("costly.yaml")).unwrap();
    watched.until(|state| !state.objects.contains_key("c0"));
    watched.settle(&folder);
    assert_eq!(watched.state.objects.keys().collect::<Vec<_>>(), ["a", "settled"]);
    assert_eq!(watched.state.problems.len(), 0, "{:?}", watched.state.problems);
}

#[test]
fn the_end_does_not_wait_for_a_costly_file() {
    let folder = TempDir::new().unwrap();
    let watched = Watched::folder(&folder);
    replace(&folder, "costly.yaml", costly(1));
    watched.watcher.stop().unwrap();
}

#[test]
fn costly_files_are_complete_at_the_start_and_when_loaded() {
    let folder = TempDir::new().unwrap();
    write(&folder, "costly.yaml", costly(1));
    write(&folder, "a.yaml", namespace("a", 1));
    let watched = Watched::folder(&folder);
    assert_eq!(watched.state.objects.len(), COUNT + 1);
    assert_eq!(watched.state, State::of(folder.path(), &[folder.path().to_owned()]));
}

#[test]
fn an_object_with_more_unknown_fields_than_are_looked_at_is_not_read() {
    let folder = TempDir::new().unwrap();
    write(&folder, "few.yaml", unknown_fields("few", 1_000));
    write(&folder, "many.yaml", unknown_fields("many", 1_001));
    let state = State::of(folder.path(), &[folder.path().to_owned()]);
    assert_eq!(state.objects.keys().collect::<Vec<_>>(), ["few"]);
    let problems = state.problems["many.yaml"].join("\n");
    let words = "more than 1000 fields of this object are not in the API";
    assert!(problems.contains("error") && problems.contains(words), "{problems}");
    // What it gave before stays.
    write(&folder, "many.yaml", namespace("many", 1));
    let mut watched = Watched::folder(&folder);
    write(&folder, "many.yaml", unknown_fields("many", 100_000));
    watched.until(|state| state.all_problems().contains("stays in force"));
    assert_eq!(watched.state.version("many"), Some("1"));
}

#[test]
fn problems_of_a_file_are_bounded_and_counted() {
    let folder = TempDir::new().unwrap();
    let note = "apiVersion: apps/v1\nkind: Other\nmetadata:\n  name: a\n".to_owned();
    write(&folder, "a.yaml", join(&vec![note; 5_000]));
    let state = State::of(folder.path(), &[folder.path().to_owned()]);
    assert_eq!(state.problems["a.yaml"].len(), MAX_PROBLEMS + 1);
    assert!(
        state.problems["a.yaml"].last().unwrap().contains("4000 more problems"),
        "{:?}",
        state.problems["a.yaml"].last()
    );
}

#[test]
fn problems_that_were_left_out_are_shown_whole_once_others_are_fixed() {
    let folder = TempDir::new().unwrap();
    let broken = |from: usize| {
        join(
            &(from..1_500)
                .map(|number| format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: N{number}\n"))
                .collect::<Vec<_>>(),
        )
    };
    write(&folder, "a.yaml", broken(0));
    let mut watched = Watched::folder(&folder);
    assert!(!watched.state.all_problems().contains("N1499"));
    replace(&folder, "a.yaml", broken(1_000));
    watched.until(|state| state.problems["a.yaml"].len() == 500);
    let last = watched.state.problems["a.yaml"].last().unwrap();
    assert!(last.contains("N1499") && last.contains("expected"), "{last}");
}

const SECURITY: &str = "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolicy\nmetadata:\n  name: guard\nspec:\n  targetRefs:\n  - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: admin}\n";
const ROUTE: &str = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: admin\nspec: {}\n";
const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata:\n  name: other\nspec:\n  ports:\n  - port: 80\n";

/// Returns true if a route is served with its policy, or not at all.
fn is_guarded(state: &State) -> bool {
    !state.objects.contains_key("HTTPRoute admin") || state.objects.contains_key("SecurityPolicy guard")
}

#[test]
fn route_does_not_overtake_the_policy_in_a_costly_file() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", namespace("a", 0));
    let mut watched = Watched::folder(&folder);
    replace(&folder, "base.yaml", costly(1) + "---\n" + SECURITY);
    replace(&folder, "admin.yaml", ROUTE);
    replace(&folder, "service.yaml", SERVICE);
    // Endpoints, certificates and the like wait for nothing.
    watched.until_while(
        |state| state.objects.contains_key("Service other"),
        |state| !state.objects.contains_key("SecurityPolicy guard"),
    );
    watched.until_while(|state| state.objects.contains_key("HTTPRoute admin"), is_guarded);
}

#[test]
fn policy_that_moves_into_a_costly_file_stays_until_it_is_there() {
    let folder = TempDir::new().unwrap();
    write(&folder, "policy.yaml", SECURITY);
    write(&folder, "admin.yaml", ROUTE);
    let mut watched = Watched::folder(&folder);
    replace(&folder, "base.yaml", costly(1) + "---\n" + SECURITY);
    fs::remove_file(folder.path().join("policy.yaml")).unwrap();
    let is_moved = |state: &State| state.objects["SecurityPolicy guard"].contains("base.yaml");
    watched.until_while(is_moved, is_guarded);
}

#[test]
fn policy_in_a_costly_file_is_read_next_to_a_flood_of_new_ones() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", namespace("a", 0));
    let mut watched = Watched::folder(&folder);
    let flood = |number: usize| folder.path().join(format!("flood{number}.yaml"));
    let mut number = 0;
    let mut more = || {
        replace(&folder, &format!("flood{number}.yaml"), costly(1).replace("name: c", &format!("name: f{number}-")));
        number += 1;
        if number > 10 {
            fs::remove_file(flood(number - 11)).unwrap();
        }
    };
    (0..10).for_each(|_| more());
    replace(&folder, "base.yaml", costly(1) + "---\n" + SECURITY);
    replace(&folder, "admin.yaml", ROUTE);
    let end = Instant::now() + DEADLINE;
    while !watched.state.objects.contains_key("HTTPRoute admin") {
        assert!(Instant::now() < end, "the policy is never read");
        more();
        watched.next(Duration::from_millis(100));
        assert!(is_guarded(&watched.state), "{:#?}", watched.state.objects.keys());
    }
}

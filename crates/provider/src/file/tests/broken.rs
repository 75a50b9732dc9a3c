//! What cannot be understood or read: it costs itself and nothing else.

use super::*;

const BROKEN: &str = "apiVersion: v1\nkind: [Namespace\n";

#[test]
fn a_broken_document_is_a_problem_with_place_and_line_and_the_others_count() {
    let folder = TempDir::new().unwrap();
    write(
        &folder,
        "a.yaml",
        join(&[namespace("one", 1), "kind: Namespace\nkind: Twice\n".to_owned(), namespace("two", 1)]),
    );
    let loaded = load(&[folder.path().to_owned()]);
    assert_eq!(loaded.objects.len(), 2);
    let problem = &loaded.problems[0].1[0];
    let place = problem.place.as_ref().unwrap();
    assert!(place.file.ends_with("/a.yaml") && (place.line, place.column) == (9, 1), "{problem}");
    assert_eq!(problem.snippet.as_deref(), Some("kind: Twice"));
}

#[test]
fn a_file_that_breaks_keeps_what_it_gave_until_it_is_mended() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", namespace("one", 1));
    write(&folder, "b.yaml", namespace("two", 1));
    let mut watched = Watched::folder(&folder);
    write(&folder, "a.yaml", BROKEN);
    watched.until_while(|state| !state.problems.is_empty(), |state| state.version("one") == Some("1"));
    assert!(watched.state.all_problems().starts_with("a.yaml:"), "{:?}", watched.state);
    write(&folder, "a.yaml", "\tstill: broken: {");
    write(&folder, "b.yaml", namespace("two", 2));
    watched.until_while(|state| state.version("two") == Some("2"), |state| state.version("one") == Some("1"));
    write(&folder, "a.yaml", namespace("one", 2));
    watched.until_while(|state| state.problems.is_empty(), |state| state.objects.contains_key("one"));
    assert_eq!(watched.state.version("one"), Some("2"));
}

#[test]
fn of_two_documents_that_became_one_both_are_told_to_stay() {
    let folder = TempDir::new().unwrap();
    let [one, two] = ["one", "two"].map(|name| namespace(name, 1));
    write(&folder, "a.yaml", join(&[one.clone(), two]));
    let mut watched = Watched::folder(&folder);
    write(&folder, "a.yaml", one + &namespace("two", 2));
    watched.until_while(|state| !state.problems.is_empty(), |state| state.version("two") == Some("1"));
    let told: Vec<&String> = watched.state.problems.values().flatten().collect();
    assert_eq!(told.len(), 2, "{told:?}");
    for (told, name) in told.iter().zip(["one", "two"]) {
        assert!(told.contains("stays in force") && told.contains(name), "{told}");
    }
}

#[test]
fn a_document_that_breaks_keeps_its_object_and_the_others_proceed() {
    let folder = TempDir::new().unwrap();
    let [one, two, three] = ["one", "two", "three"].map(|name| namespace(name, 1));
    write(&folder, "a.yaml", join(&[one.clone(), two, three]));
    let mut watched = Watched::folder(&folder);
    // The second breaks while the first moves down, the third changes, and a fourth comes.
    let text =
        format!("# a line more\n{}", join(&[one, BROKEN.to_owned(), namespace("three", 2), namespace("four", 1)]));
    write(&folder, "a.yaml", text);
    watched.until_while(|state| state.version("four").is_some(), |state| state.version("two") == Some("1"));
    assert_eq!(watched.state.version("three"), Some("2"));
    assert_eq!(watched.state.version("one"), Some("1"));
    // Mended as something else: now the old object goes.
    write(&folder, "a.yaml", join(&[namespace("one", 1), namespace("five", 1), namespace("three", 2)]));
    watched.until(|state| state.version("five").is_some());
    assert_eq!(watched.state.objects.keys().collect::<Vec<_>>(), ["five", "one", "three"]);
    assert_eq!(watched.state.problems.len(), 0);
}

#[test]
fn a_lost_border_between_two_documents_keeps_both_objects() {
    let folder = TempDir::new().unwrap();
    let documents = ["one", "two", "three"].map(|name| namespace(name, 1));
    write(&folder, "a.yaml", join(&documents));
    let mut watched = Watched::folder(&folder);
    write(&folder, "a.yaml", format!("{}{}---\n{}", documents[0], documents[1], documents[2]));
    watched.until_while(|state| !state.problems.is_empty(), |state| state.objects.len() == 3);
}

#[test]
fn an_object_too_wrong_to_be_used_keeps_its_last_form_though_its_neighbour_goes() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", join(&[namespace("one", 1), namespace("two", 1)]));
    let mut watched = Watched::folder(&folder);
    write(&folder, "a.yaml", "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: two\n  labels: {version: 2}\n");
    watched.until(|state| !state.problems.is_empty());
    assert_eq!(watched.state.version("one"), None, "the text says who it is, so the other one was removed on purpose");
    assert_eq!(watched.state.version("two"), Some("1"));
}

#[test]
fn an_object_that_another_file_gives_properly_comes_before_one_that_is_only_remembered() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", namespace("one", "a"));
    let mut watched = Watched::folder(&folder);
    write(&folder, "a.yaml", BROKEN);
    watched.until(|state| !state.problems.is_empty());
    write(&folder, "b.yaml", namespace("one", "b"));
    watched.until_version("one", "b");
    write(&folder, "a.yaml", namespace("one", "a2"));
    watched.until_version("one", "a2");
}

#[test]
fn bytes_that_are_not_utf_8_are_a_problem_at_their_place() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", b"apiVersion: v1\nkind: Na\xff\n");
    write(&folder, "b.yaml", namespace("b", 1));
    let state = State::of(folder.path(), &[folder.path().to_owned()]);
    assert_eq!(state.version("b"), Some("1"));
    assert!(state.all_problems().starts_with("a.yaml:2:9: error: not UTF-8"), "{:?}", state.problems);
}

#[test]
fn of_a_file_that_cannot_be_read_any_more_earlier_problems_are_not_told() {
    let folder = TempDir::new().unwrap();
    let mut watched = Watched::folder(&folder);
    write(&folder, "a.yaml", BROKEN);
    watched.until(|state| !state.problems.is_empty());
    let before = watched.state.all_problems();
    write(&folder, "a.yaml", b"apiVersion: v1\nkind: Na\xff\n");
    watched.until(|state| state.all_problems().contains("not UTF-8"));
    let after = watched.state.all_problems();
    assert!(!before.lines().any(|line| after.contains(line)), "{before}\n{after}");
}

#[test]
fn a_pipe_among_the_files_is_a_problem_and_nobody_waits_for_it() {
    let folder = TempDir::new().unwrap();
    nix::unistd::mkfifo(&folder.path().join("a.yaml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    write(&folder, "b.yaml", namespace("b", 1));
    let state = State::of(folder.path(), &[folder.path().to_owned()]);
    assert_eq!(state.version("b"), Some("1"));
    assert!(state.all_problems().contains("not a regular file"), "{:?}", state.problems);
}

#[test]
fn large_files_and_files_of_many_objects_are_read() {
    let folder = TempDir::new().unwrap();
    let many: Vec<String> = (0..10_000).map(|number| namespace(&format!("n{number}"), 1)).collect();
    write(&folder, "many.yaml", join(&many));
    write(&folder, "large.yaml", format!("{}# {}\n", namespace("large", 1), "x".repeat(5 << 20)));
    let state = State::of(folder.path(), &[folder.path().to_owned()]);
    assert_eq!((state.objects.len(), state.problems.len()), (10_001, 0));
}

#[test]
fn ten_thousand_broken_documents_are_a_bounded_list_of_problems() {
    let folder = TempDir::new().unwrap();
    let broken = |version: u32| join(&vec![format!("{BROKEN}# {version}\n"); 10_000]);
    write(&folder, "a.yaml", broken(1));
    let mut watched = Watched::folder(&folder);
    assert_eq!(watched.state.problems["a.yaml"].len(), 1_001);
    assert!(watched.state.problems["a.yaml"].last().unwrap().contains("9000 more problems"));
    write(&folder, "a.yaml", broken(2));
    watched.settle(&folder);
    assert_eq!(watched.state.problems["a.yaml"].len(), 1_001);
}

#[test]
fn a_document_of_aliases_of_aliases_costs_itself_only() {
    let folder = TempDir::new().unwrap();
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let list = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{list}]\n"));
    }
    write(&folder, "a.yaml", join(&[bomb, namespace("a", 1)]));
    let state = State::of(folder.path(), &[folder.path().to_owned()]);
    assert_eq!((state.version("a"), state.problems["a.yaml"].len()), (Some("1"), 1));
}

#[test]
fn a_document_on_which_the_reader_panics_costs_only_itself_and_keeps_what_it_gave() {
    use crate::file::document::{Parsed, parse, parse_with};
    let file: Arc<str> = "a.yaml".into();
    let text = |version| join(&[namespace("one", 1), namespace("two", version), namespace("three", version)]);
    let read = |document: &api::yaml::Document<'_>, file: &Arc<str>| {
        assert!(!document.text.contains("two"), "a bug");
        api::read(document, file)
    };
    let none: &[u128] = &[];
    let before: Vec<_> = parse(&file, &text(1), none, &|| true)
        .unwrap()
        .into_iter()
        .filter_map(|parsed| match parsed {
            Parsed::New { document, .. } => Some(document),
            Parsed::Same { .. } => None,
        })
        .collect();
    let after = parse_with(&file, &text(2), (&before, &|| true), read).unwrap();
    let [Parsed::Same { .. }, Parsed::New { document: broken, lost, .. }, Parsed::New { document: good, .. }] =
        &after[..]
    else {
        panic!("{after:?}")
    };
    assert!(broken.problems[0].to_string().contains("a bug in Chancery: please report it"), "{:?}", broken.problems);
    assert_eq!(broken.problems[0].place.as_ref().map(|place| place.line), Some(broken.line));
    assert!(lost.all, "what it gave before stays in force");
    assert_eq!(good.identities().count(), 1);
}

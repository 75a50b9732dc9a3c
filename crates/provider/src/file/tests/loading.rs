//! Loading once: which files are read, which object counts, in which order.

use super::*;

fn loaded(folder: &TempDir) -> State {
    State::of(folder.path(), &[folder.path().to_owned()])
}

#[test]
fn a_directory_is_read_at_every_depth_but_nothing_hidden_and_no_backups() {
    let folder = TempDir::new().unwrap();
    for name in ["a.yaml", "b.yml", "c.json", "deep/er/d.yaml"] {
        let object = name.replace(['/', '.'], "-");
        write(&folder, name, namespace(&object, 1));
    }
    write(&folder, "c.json", r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "c-json"}}"#);
    for name in [".h.yaml", ".git/x.yaml", "a.yaml~", "a.yaml.bak", "a.yaml.orig", "#a.yaml#", ".a.yaml.swp", "a.txt"] {
        write(&folder, name, namespace("wrong", 1));
    }
    let state = loaded(&folder);
    assert_eq!(state.objects.keys().collect::<Vec<_>>(), ["a-yaml", "b-yml", "c-json", "deep-er-d-yaml"]);
    assert_eq!(state.problems, BTreeMap::new());
}

#[test]
fn a_single_file_is_read_whatever_its_name() {
    let folder = TempDir::new().unwrap();
    write(&folder, ".hidden.txt", namespace("a", 1));
    let state = State::of(folder.path(), &[folder.path().join(".hidden.txt")]);
    assert_eq!(state.version("a"), Some("1"));
}

#[test]
fn of_equal_identities_the_first_in_path_order_counts_and_both_places_are_named() {
    let folder = TempDir::new().unwrap();
    write(&folder, "b.yaml", namespace("same", "b"));
    write(&folder, "a/z.yaml", join(&[namespace("other", 1), namespace("same", "a")]));
    let state = loaded(&folder);
    assert_eq!(state.objects["same"], "a a/z.yaml:8");
    let problems = state.all_problems();
    assert!(problems.starts_with("b.yaml:1:1: error: Namespace same:"), "{problems}");
    assert!(problems.contains("a/z.yaml:8 comes first"), "{problems}");
}

#[test]
fn of_equal_identities_in_one_file_the_first_counts() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", join(&[namespace("same", 1), namespace("same", 2), namespace("same", 3)]));
    let state = loaded(&folder);
    assert_eq!(state.version("same"), Some("1"));
    assert_eq!(state.problems["a.yaml"].len(), 2);
}

#[test]
fn earlier_roots_come_first_and_roots_within_roots_are_read_once() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a/x.yaml", namespace("same", "a"));
    write(&folder, "b/x.yaml", namespace("same", "b"));
    let root = |name: &str| folder.path().join(name);
    assert_eq!(State::of(folder.path(), &[root("b"), root("a")]).version("same"), Some("b"));
    let nested = State::of(folder.path(), &[root("a/x.yaml"), root("a"), root("a"), root("a/../a")]);
    assert_eq!((nested.version("same"), nested.problems.len()), (Some("a"), 0));
}

#[test]
fn texts_come_after_paths() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", namespace("same", "file"));
    let text = join(&[namespace("same", "text"), namespace("text", 1)]);
    let inputs =
        [Input::Text { name: "<stdin>".into(), bytes: text.into_bytes() }, Input::Path(folder.path().to_owned())];
    let mut state = State::default();
    state.apply(load_inputs(&inputs).into_batch(), folder.path());
    assert_eq!(state.version("same"), Some("file"));
    assert_eq!(state.objects["text"], "1 <stdin>:8");
    assert!(state.problems["<stdin>"][0].contains("a.yaml:1 comes first"));
}

#[test]
fn a_root_that_does_not_exist_is_a_problem_and_the_others_are_read() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", namespace("a", 1));
    let state = State::of(folder.path(), &[folder.path().join("nowhere"), folder.path().join("a.yaml")]);
    assert_eq!(state.version("a"), Some("1"));
    assert_eq!(state.problems["nowhere"], ["nowhere:1:1: error: no such file or directory"]);
}

#[test]
fn the_result_is_the_same_every_time() {
    let folder = TempDir::new().unwrap();
    for number in 0..500 {
        write(&folder, &format!("{}/{number}.yaml", number % 7), namespace(&format!("n{}", number % 300), number));
    }
    let roots = [folder.path().to_owned()];
    let first = load(&roots);
    assert_eq!(first.objects.len(), 300);
    for _ in 0..5 {
        assert_eq!(load(&roots), first);
    }
}

#[test]
fn the_static_configuration_is_an_object_like_others_and_there_is_one() {
    let folder = TempDir::new().unwrap();
    let text = "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: EnvoyGateway\ngateway: {controllerName: a.b/c}\n";
    write(&folder, "a.yaml", text);
    write(&folder, "b.yaml", format!("{text}metadata: {{name: other}}\n"));
    let batch = load(&[folder.path().to_owned()]).into_batch();
    let applied = batch.changes.iter().filter(|change| matches!(change, Change::Apply(..))).count();
    let mut graph = engine::Graph::new();
    let mut store = store::Store::declare(&mut graph);
    store.apply(&mut graph, batch);
    let settings = graph.get(store.tables().settings, &()).map(|found| found.spec.gateway.controller_name.to_string());
    assert_eq!((applied, settings.as_deref()), (1, Some("a.b/c")));
    assert_eq!(store.problems().count(), 1);
}

#[test]
fn a_pipe_that_is_named_is_read_to_its_end() {
    use std::os::fd::AsRawFd;
    let folder = TempDir::new().unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut writer, namespace("a", 1).as_bytes()).unwrap();
    drop(writer);
    let path = PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()));
    let mut state = State::default();
    let inputs = [Input::Path(path), Input::Path(folder.path().to_owned())];
    state.apply(load_inputs(&inputs).into_batch(), folder.path());
    assert_eq!(state.version("a"), Some("1"));
}

//! Symbolic links: mounted ConfigMaps, links to directories, circles, links to nothing.

use std::os::unix::fs::symlink;

use super::*;

/// A mounted ConfigMap: `a.yaml -> ..data/a.yaml`, `..data -> ..<version>`, swapped by renaming a new `..data` into place.
fn swap(folder: &TempDir, version: u32) {
    let path = |name: &str| folder.path().join(name);
    write(folder, &format!("..{version}/a.yaml"), namespace("a", version));
    symlink(format!("..{version}"), path("..data_tmp")).unwrap();
    fs::rename(path("..data_tmp"), path("..data")).unwrap();
    if version > 1 {
        fs::remove_dir_all(path(&format!("..{}", version - 1))).unwrap();
    } else {
        symlink("..data/a.yaml", path("a.yaml")).unwrap();
    }
}

#[test]
fn a_mounted_config_map_is_followed_through_every_swap() {
    let folder = TempDir::new().unwrap();
    swap(&folder, 1);
    let mut watched = Watched::folder(&folder);
    assert_eq!(watched.state.version("a"), Some("1"));
    for version in 2..30 {
        swap(&folder, version);
        let version = version.to_string();
        watched.until_while(|state| state.version("a") == Some(&version), |state| state.objects.contains_key("a"));
    }
    watched.settle(&folder);
    assert_eq!(watched.state.problems.len(), 0);
}

#[test]
fn a_file_behind_a_link_is_followed_too() {
    let folder = TempDir::new().unwrap();
    write(&folder, "elsewhere/real", namespace("a", 1));
    fs::create_dir(folder.path().join("root")).unwrap();
    symlink("../elsewhere/real", folder.path().join("root/a.yaml")).unwrap();
    let mut watched = Watched::following_links(&folder, &[folder.path().join("root")]);
    write(&folder, "elsewhere/real", namespace("a", 2));
    watched.until_version("a", "2");
    replace(&folder, "elsewhere/real", namespace("a", 3));
    watched.until_version("a", "3");
    fs::remove_file(folder.path().join("elsewhere/real")).unwrap();
    watched.until(|state| state.objects.is_empty());
    assert!(watched.state.all_problems().contains("leads to nothing"), "{:?}", watched.state);
    write(&folder, "elsewhere/real", namespace("a", 4));
    watched.until_version("a", "4");
    watched.until(|state| state.problems.is_empty());
}

#[test]
fn a_linked_directory_is_followed_and_so_is_the_link() {
    let folder = TempDir::new().unwrap();
    write(&folder, "one/d/a.yaml", namespace("a", 1));
    write(&folder, "two/d/a.yaml", namespace("a", 2));
    fs::create_dir(folder.path().join("root")).unwrap();
    symlink("../one", folder.path().join("root/link")).unwrap();
    let mut watched = Watched::following_links(&folder, &[folder.path().join("root")]);
    assert_eq!(watched.state.version("a"), Some("1"));
    write(&folder, "one/d/b.yaml", namespace("b", 1));
    watched.until_version("b", "1");
    symlink("../two", folder.path().join("root/.new")).unwrap();
    fs::rename(folder.path().join("root/.new"), folder.path().join("root/link")).unwrap();
    watched.until_while(|state| state.version("a") == Some("2"), |state| state.objects.contains_key("a"));
    watched.until(|state| !state.objects.contains_key("b"));
    write(&folder, "one/d/a.yaml", namespace("a", "unseen"));
    write(&folder, "two/d/a.yaml", namespace("a", 3));
    watched.until_while(|state| state.version("a") == Some("3"), |state| state.version("a") != Some("unseen"));
}

#[test]
fn circles_of_links_are_problems_at_their_place() {
    let folder = TempDir::new().unwrap();
    write(&folder, "d/a.yaml", namespace("a", 1));
    symlink("..", folder.path().join("d/up")).unwrap();
    symlink("me.yaml", folder.path().join("me.yaml")).unwrap();
    let mut watched = Watched::folder(&folder);
    assert_eq!(watched.state.objects.keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(watched.state.problems.keys().collect::<Vec<_>>(), ["d/up", "me.yaml"]);
    fs::remove_file(folder.path().join("d/up")).unwrap();
    replace(&folder, "me.yaml", namespace("me", 1));
    watched.until(|state| state.problems.is_empty() && state.objects.len() == 2);
}

#[test]
fn a_link_to_nothing_is_a_problem_until_there_is_something() {
    let folder = TempDir::new().unwrap();
    symlink("nowhere/b", folder.path().join("a.yaml")).unwrap();
    let mut watched = Watched::folder(&folder);
    assert!(watched.state.all_problems().contains("leads to nothing"));
    write(&folder, "nowhere/b", namespace("a", 1));
    watched.until(|state| state.version("a") == Some("1") && state.problems.is_empty());
}

#[test]
fn a_link_to_a_directory_that_vanishes_is_a_problem_and_followed_when_that_comes_back() {
    let folder = TempDir::new().unwrap();
    write(&folder, "one/a.yaml", namespace("a", 1));
    fs::create_dir(folder.path().join("root")).unwrap();
    symlink("../one", folder.path().join("root/link")).unwrap();
    let mut watched = Watched::following_links(&folder, &[folder.path().join("root")]);
    fs::rename(folder.path().join("one"), folder.path().join("aside")).unwrap();
    watched.until(|state| state.objects.is_empty() && state.all_problems().contains("root/link:1:1: error: the link"));
    fs::rename(folder.path().join("aside"), folder.path().join("one")).unwrap();
    watched.until(|state| state.version("a") == Some("1") && state.problems.is_empty());
    fs::rename(folder.path().join("one"), folder.path().join("aside")).unwrap();
    watched.until(|state| state.objects.is_empty() && !state.problems.is_empty());
    fs::remove_file(folder.path().join("root/link")).unwrap();
    watched.until(|state| state.problems.is_empty());
}

#[test]
fn a_root_may_be_a_link_that_is_swapped() {
    let folder = TempDir::new().unwrap();
    write(&folder, "v1/a.yaml", namespace("a", 1));
    write(&folder, "v2/a.yaml", namespace("a", 2));
    symlink("v1", folder.path().join("root")).unwrap();
    let mut watched = Watched::roots(&folder, &[folder.path().join("root")]);
    symlink("v2", folder.path().join("new")).unwrap();
    fs::rename(folder.path().join("new"), folder.path().join("root")).unwrap();
    watched.until_while(|state| state.version("a") == Some("2"), |state| state.objects.contains_key("a"));
}

#[test]
fn a_link_that_leads_out_of_the_root_is_a_warning_and_gives_nothing() {
    let folder = TempDir::new().unwrap();
    write(&folder, "elsewhere/real", namespace("away", 1));
    write(&folder, "elsewhere/d/b.yaml", namespace("below", 1));
    write(&folder, "root/own.yaml", namespace("own", 1));
    symlink("../elsewhere/real", folder.path().join("root/a.yaml")).unwrap();
    symlink("../elsewhere/d", folder.path().join("root/d")).unwrap();
    let root = folder.path().join("root");
    let mut watched = Watched::roots(&folder, std::slice::from_ref(&root));
    assert_eq!(watched.state.objects.keys().collect::<Vec<_>>(), ["own"]);
    for name in ["root/a.yaml", "root/d"] {
        let problems = &watched.state.problems[name];
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("warning") && problems[0].contains("--follow-links"), "{problems:?}");
    }
    assert_eq!(State::of(folder.path(), std::slice::from_ref(&root)), watched.state);
    // What it leads to moves into the root.
    fs::rename(folder.path().join("elsewhere/real"), root.join("real")).unwrap();
    symlink("real", root.join(".new")).unwrap();
    fs::rename(root.join(".new"), root.join("a.yaml")).unwrap();
    watched.until(|state| state.version("away") == Some("1"));
    // And out again: what the link gave is gone, as if the link were.
    symlink("../elsewhere/d/b.yaml", root.join(".new")).unwrap();
    fs::rename(root.join(".new"), root.join("a.yaml")).unwrap();
    watched.until(|state| !state.objects.contains_key("away"));
    watched.until(|state| state.problems.contains_key("root/a.yaml"));
    for name in ["a.yaml", "d"] {
        fs::remove_file(root.join(name)).unwrap();
    }
    watched.until(|state| state.problems.is_empty());
}

#[test]
fn a_link_into_another_root_is_followed() {
    let folder = TempDir::new().unwrap();
    write(&folder, "two/d/real", namespace("a", 1));
    fs::create_dir(folder.path().join("one")).unwrap();
    symlink("../two/d/real", folder.path().join("one/a.yaml")).unwrap();
    let roots = ["one", "two"].map(|name| folder.path().join(name));
    let state = State::of(folder.path(), &roots);
    assert_eq!((state.version("a"), state.problems.len()), (Some("1"), 0), "{state:?}");
}

#[test]
fn files_of_the_kernel_are_read_through_no_link_and_as_no_root() {
    let folder = TempDir::new().unwrap();
    let links = [
        "/proc/self/environ",
        "/proc/self/cwd/Cargo.toml",
        "/dev/zero",
        "/dev/stdin",
        "/sys/kernel/notes",
        "/proc/self/root/etc/passwd",
    ];
    fs::create_dir(folder.path().join("root")).unwrap();
    for (at, link) in links.iter().enumerate() {
        symlink(link, folder.path().join(format!("root/{at}.yaml"))).unwrap();
    }
    let root = folder.path().join("root");
    let state = State::of(folder.path(), std::slice::from_ref(&root));
    assert_eq!((state.objects.len(), state.problems.len()), (0, links.len()), "{state:#?}");
    let followed = load_following(std::slice::from_ref(&root), Links::Everywhere);
    for (file, problems) in &followed.problems {
        let snippets = problems.iter().filter(|problem| problem.snippet.is_some()).count();
        assert_eq!((problems.len(), snippets), (1, 0), "{file}: {problems:?}");
    }
    for root in ["/proc/self", "/dev", "/sys/kernel", "/proc/self/environ", "/dev/null"] {
        let loaded = load_following(&[PathBuf::from(root)], Links::Everywhere);
        let texts: Vec<String> = loaded.problems.iter().flat_map(|(_, all)| all).map(ToString::to_string).collect();
        assert!(texts.len() == 1 && texts[0].contains("nothing below /proc, /sys and /dev"), "{root}: {texts:?}");
    }
}

#[test]
fn nothing_is_shown_of_the_text_of_a_file_without_an_object() {
    let folder = TempDir::new().unwrap();
    let texts = [
        "root:$6$salt$secret:19000:0:99999:7:::\n",
        "-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n",
        "TOKEN=secret\n",
        "secret: 1\nsecret: 2\n",
        "secret: !!secret x\n",
        "*secret\n",
        "<<<<<<< secret\n",
        "{\"secret\": [\n",
        "- secret\n",
        "mankind: secret\n",
        "kind: secret\n",
        "apiVersion: secret\n",
    ];
    for (at, text) in texts.iter().enumerate() {
        write(&folder, &format!("{at:02}.yaml"), text);
    }
    let loaded = load_following(&[folder.path().to_owned()], Links::Everywhere);
    assert_eq!(loaded.problems.len(), texts.len());
    for (file, problems) in &loaded.problems {
        for problem in problems {
            assert!(problem.snippet.is_none() && !problem.to_string().contains("secret"), "{file}: {problem:?}");
            assert!(problem.place.is_some(), "{problem}");
        }
    }
}

#[test]
fn the_text_of_a_broken_object_is_shown() {
    let folder = TempDir::new().unwrap();
    for (name, text) in [
        ("a.yaml", "apiVersion: v1\nkind: [Namespace\n"),
        ("b.yaml", "\"apiVersion\": v1\n\"kind\" : Namespace\nmetadata: x\n"),
        ("c.json", "{\"kind\":\"Namespace\",\"apiVersion\":\"v1\",\"metadata\":{]"),
    ] {
        write(&folder, name, text);
    }
    let loaded = load(&[folder.path().to_owned()]);
    assert_eq!(loaded.problems.len(), 3);
    for (file, problems) in &loaded.problems {
        assert!(problems[0].snippet.is_some(), "{file}: {problems:?}");
    }
}

/// The same where the kernel has no `openat2`.
mod without_openat2 {
    use crate::file::resolve::testing::WithoutOpenat2;

    macro_rules! without {
        ($($name:ident)+) => {$(
            #[test]
            fn $name() {
                let _without = WithoutOpenat2::begin();
                super::$name();
            }
        )+};
    }

    without! {
        a_mounted_config_map_is_followed_through_every_swap
        a_file_behind_a_link_is_followed_too
        a_linked_directory_is_followed_and_so_is_the_link
        circles_of_links_are_problems_at_their_place
        a_link_to_nothing_is_a_problem_until_there_is_something
        a_link_to_a_directory_that_vanishes_is_a_problem_and_followed_when_that_comes_back
        a_root_may_be_a_link_that_is_swapped
        a_link_that_leads_out_of_the_root_is_a_warning_and_gives_nothing
        a_link_into_another_root_is_followed
        files_of_the_kernel_are_read_through_no_link_and_as_no_root
    }
}

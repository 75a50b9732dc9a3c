//! Folders and paths.

use super::*;

#[test]
fn two_gateways_have_two_folders_and_the_same_gateway_always_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::open(dir.path(), None).unwrap();
    let (a, b) = (FleetName::from("default/a"), FleetName::from("default/b"));
    let paths = layout.prepare(&a).unwrap();
    assert_eq!(paths, Layout::open(dir.path(), None).unwrap().paths(&a));
    assert_ne!(paths.dir, layout.paths(&b).dir);
    assert_eq!(std::fs::metadata(&paths.dir).unwrap().mode() & 0o777, 0o700);
    assert_eq!(layout.known(), [a]);
}

#[test]
fn folder_and_token_cannot_be_computed_and_are_kept() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let fleet = FleetName::from("default/a");
    let [first, second] = [&one, &other].map(|dir| Layout::open(dir.path(), None).unwrap().prepare(&fleet).unwrap());
    assert_ne!(first.dir.file_name(), second.dir.file_name());
    assert_ne!(first.token, second.token);
    assert_eq!(std::fs::read_to_string(&first.token_file).unwrap(), first.token.as_str());
    assert_eq!(std::fs::metadata(&first.token_file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(Layout::open(one.path(), None).unwrap().paths(&fleet), first);
    assert_eq!(Layout::admin_socket(one.path(), &fleet), first.admin_socket);
}

#[test]
fn folder_of_an_earlier_version_is_not_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = FleetName::from("default/a");
    let earlier = dir.path().join("gateways").join(earlier_name(&fleet));
    make_dir(&earlier).unwrap();
    std::fs::write(earlier.join("gateway"), fleet.as_str()).unwrap();
    let layout = Layout::open(dir.path(), None).unwrap();
    assert_eq!(Layout::admin_socket(dir.path(), &fleet), earlier.join("admin.sock"), "it may run still");
    assert_ne!(layout.prepare(&fleet).unwrap().dir, earlier);
    assert_eq!(layout.earlier_paths(&fleet).unwrap().dir, earlier);
    assert_eq!(layout.known(), std::slice::from_ref(&fleet));
    assert_eq!(Layout::admin_socket(dir.path(), &fleet), layout.paths(&fleet).admin_socket);
    layout.earlier_paths(&fleet).unwrap().remove();
    assert!(!earlier.exists() && layout.earlier_paths(&fleet).is_none());
}

#[test]
fn who_serves_a_proxy_and_who_starts_it_may_prepare_its_folder_at_the_same_moment() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::open(dir.path(), None).unwrap();
    for round in 0..200 {
        let fleet = FleetName::from(&*format!("default/{round}"));
        std::thread::scope(|scope| {
            let both = [(); 2].map(|()| scope.spawn(|| layout.prepare(&fleet)));
            both.into_iter().for_each(|prepared| drop(prepared.join().unwrap().unwrap()));
        });
    }
}

#[test]
fn a_folder_of_another_gateway_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::open(dir.path(), None).unwrap();
    let fleet = FleetName::from("default/a");
    let paths = layout.prepare(&fleet).unwrap();
    std::fs::write(&paths.owner, "default/other").unwrap();
    let error = layout.prepare(&fleet).unwrap_err().to_string();
    assert!(error.contains("default/other"), "{error}");
}

#[test]
fn removing_a_proxys_files_leaves_a_socket_that_its_successor_listens_on() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::open(dir.path(), None).unwrap();
    let paths = layout.prepare(&FleetName::from("default/a")).unwrap();
    write_whole(&paths.bootstrap, b"{}").unwrap();
    let listener = std::os::unix::net::UnixListener::bind(&paths.xds_socket).unwrap();
    paths.remove();
    assert!(!paths.bootstrap.exists() && layout.known().is_empty());
    std::os::unix::net::UnixStream::connect(&paths.xds_socket).unwrap();
    drop(listener);
    std::fs::remove_file(&paths.xds_socket).unwrap();
    paths.remove();
    assert!(!paths.dir.exists());
}

#[test]
fn whoever_asks_finds_the_socket_of_a_state_folder_with_a_long_path_too() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tempfile::tempdir().unwrap();
    assert_eq!(Layout::own_socket(dir.path()), dir.path().join("admin.sock"));
    let state = dir.path().join("d/".repeat(50));
    let layout = Layout::open(&state, Some(runtime.path())).unwrap();
    let socket = Layout::own_socket(&state);
    assert!(socket.starts_with(runtime.path()) && layout.folders().contains(&socket.parent().unwrap()), "{socket:?}");
    let left = || std::fs::read_dir(runtime.path()).unwrap().count();
    let paths = layout.prepare(&FleetName::from("default/a")).unwrap();
    layout.close();
    assert_eq!((left(), Layout::own_socket(&state)), (1, socket), "a proxy is using it");
    paths.remove();
    layout.close();
    assert_eq!((left(), state.join(RECORD).exists()), (0, false));
}

#[test]
fn a_copy_of_a_state_folder_gets_sockets_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tempfile::tempdir().unwrap();
    let [state, copy] = ["original", "copy"].map(|name| dir.path().join(name).join("d/".repeat(50)));
    let fleet = FleetName::from("default/a");
    let sockets = |state: &Path| Layout::open(state, Some(runtime.path())).unwrap().prepare(&fleet).unwrap().sockets;
    let own = sockets(&state);
    std::fs::create_dir_all(&copy).unwrap();
    std::fs::copy(state.join(RECORD), copy.join(RECORD)).unwrap();
    assert!(!Layout::own_socket(&copy).starts_with(runtime.path()), "status of the copy asks the original");
    let others = sockets(&copy);
    assert_ne!(others, own);
    assert_eq!((sockets(&state), sockets(&copy)), (own, others), "each is remembered");
    // The same folder by another name is no copy.
    let link = dir.path().join("link".repeat(25));
    std::os::unix::fs::symlink(&state, &link).unwrap();
    assert_eq!(Layout::own_socket(&link.join(".")), Layout::own_socket(&state));
}

#[test]
fn a_remembered_socket_folder_that_others_can_enter_is_not_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tempfile::tempdir().unwrap();
    let state = dir.path().join("d/".repeat(50));
    let fleet = FleetName::from("default/a");
    let first = Layout::open(&state, Some(runtime.path())).unwrap().paths(&fleet).sockets;
    std::fs::set_permissions(first.parent().unwrap(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let second = Layout::open(&state, Some(runtime.path())).unwrap().paths(&fleet).sockets;
    assert_ne!(first, second);
}

#[test]
fn a_file_that_says_so_already_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bootstrap.json");
    let file = |text: &[u8]| {
        write_whole(&path, text).unwrap();
        std::fs::metadata(&path).unwrap().ino()
    };
    let first = file(b"{}");
    assert_eq!(file(b"{}"), first, "another file would need room");
    assert_ne!(file(b"[]"), first);
    assert_eq!(std::fs::read(&path).unwrap(), b"[]");
}

#[test]
fn folders_that_name_no_gateway_are_removed_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::open(dir.path(), None).unwrap();
    let named = layout.prepare(&FleetName::from("default/a")).unwrap();
    let at = |name: &str| dir.path().join("gateways").join(name);
    let make = |name: &str, files: &[&str]| {
        std::fs::create_dir(at(name)).unwrap();
        files.iter().for_each(|file| std::fs::write(at(name).join(file), "").unwrap());
    };
    let left = [
        ("0123456789abcdef", &[][..]),
        ("00000000000000a0", &["xds.sock"]),
        ("00000000000000a1", &[".new-a1b2c3", "gateway"]),
    ];
    left.iter().for_each(|(name, files)| make(name, files));
    // Not of Chancery's making, or with something in it that is not.
    let kept = [
        ("backup", &[][..]),
        ("00000000000000A2", &[]),
        ("00000000000000a3", &["notes"]),
        ("00000000000000a4", &["xds.sock", "envoy.pid"]),
    ];
    kept.iter().for_each(|(name, files)| make(name, files));
    std::fs::create_dir(at("00000000000000a5")).unwrap();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-s", "--", "-c", BOOTSTRAP]).current_dir(at("00000000000000a5"));
    let mut running = shell.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let bootstrap = at("00000000000000a5").join(BOOTSTRAP);
    let end = std::time::Instant::now() + crate::host::tests::stage::DEADLINE;
    while search(&bootstrap, &BTreeSet::new()).is_empty() {
        assert!(std::time::Instant::now() < end, "it does not run");
        std::thread::yield_now();
    }
    Layout::open(dir.path(), None).unwrap();
    assert!(left.iter().all(|(name, _)| !at(name).exists()));
    assert!(kept.iter().all(|(name, _)| at(name).exists()) && named.owner.exists());
    assert!(at("00000000000000a5").exists(), "a process runs from there");
    drop(running.stdin.take());
    running.wait().unwrap();
    Layout::open(dir.path(), None).unwrap();
    assert!(!at("00000000000000a5").exists());
}

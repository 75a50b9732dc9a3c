//! Links, devices and sockets in the place of a file.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use tempfile::TempDir;

use super::*;

fn of(folder: &TempDir, links: Links) -> Access {
    Access::new(links, [&Area::of(folder.path()).unwrap()])
}

#[test]
fn only_regular_files_inside_the_roots_are_opened() {
    let (inside, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let path = |name: &str| inside.path().join(name);
    fs::write(path("file"), "a").unwrap();
    fs::write(outside.path().join("other"), "b").unwrap();
    fs::create_dir(path("folder")).unwrap();
    symlink("file", path("own")).unwrap();
    symlink(outside.path().join("other"), path("away")).unwrap();
    symlink(outside.path(), path("away-folder")).unwrap();
    nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(path("socket")).unwrap();
    symlink("/dev/zero", path("device")).unwrap();
    symlink("/proc/self/environ", path("environ")).unwrap();
    symlink("/proc/self/cwd/../../etc/passwd", path("round")).unwrap();
    for links in [Links::WithinRoots, Links::Everywhere] {
        let access = of(&inside, links);
        assert!(access.file(&path("file")).is_ok() && access.file(&path("own")).is_ok());
        for name in ["away", "away-folder/other"] {
            assert_eq!(access.file(&path(name)).is_ok(), links == Links::Everywhere, "{name}");
        }
        assert!(matches!(access.file(&path("pipe")), Err(Denied::Kind("a pipe"))));
        assert!(matches!(access.file(&path("socket")), Err(Denied::Kind("a socket"))));
        assert!(matches!(access.file(&path("device")), Err(Denied::Special)));
        assert!(matches!(access.file(&path("environ")), Err(Denied::Special)));
        assert!(matches!(access.file(&path("folder")), Err(Denied::Io(_))));
        assert!(!access.is_readable(&path("pipe")) && !access.is_readable(&path("environ")));
        assert!(access.is_readable(&path("folder")) && access.is_readable(&path("file")));
    }
}

#[test]
fn a_file_that_is_swapped_for_a_link_is_never_read_through_it() {
    let (inside, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (file, away) = (inside.path().join("file"), outside.path().join("secret"));
    fs::write(&file, "own").unwrap();
    fs::write(&away, "secret").unwrap();
    let (own, link) = (inside.path().join("own"), inside.path().join("link"));
    let access = of(&inside, Links::WithinRoots);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                symlink(&away, &link).unwrap();
                fs::rename(&link, &file).unwrap();
                fs::write(&own, "own").unwrap();
                fs::rename(&own, &file).unwrap();
            }
        });
        let (mut read, mut denied, mut other) = (0, 0, None);
        while other.is_none() && (read < 200 || denied < 200) {
            match access.file(&file) {
                Ok((mut file, about)) => {
                    let bytes = crate::file::read::bounded(&mut file, about.len());
                    read += 1;
                    other = Some(bytes.map(String::from_utf8))
                        .filter(|text| !matches!(text, Ok(Ok(text)) if text == "own"));
                }
                Err(_) => denied += 1,
            }
        }
        // The other thread ends before anything here can fail.
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(other.is_none(), "{other:?}");
    });
}

#[test]
fn special_places_are_so_by_path_and_by_file_system() {
    for path in ["/proc", "/proc/1/environ", "/sys/kernel", "/dev/null", "/dev/fd/3"] {
        assert!(is_special(Path::new(path)), "{path}");
    }
    for path in ["/process", "/dev/shm/conf", "/etc", "/home/dev/proc"] {
        assert!(!is_special(Path::new(path)), "{path}");
    }
    let found = File::open("/proc/self/status").unwrap();
    assert!(MADE_BY_KERNEL.contains(&fstatfs(&found).unwrap().filesystem_type()));
}

#[test]
fn texts_are_of_files_below_the_roots_only() {
    let (inside, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    fs::write(inside.path().join("a.yaml"), "own").unwrap();
    fs::write(outside.path().join("b.yaml"), "other").unwrap();
    symlink(outside.path().join("b.yaml"), inside.path().join("b.yaml")).unwrap();
    let name = |name: &str| inside.path().join(name).to_string_lossy().into_owned();
    let texts = |links| Texts::new(&[inside.path().to_owned()], links);
    assert_eq!(texts(Links::WithinRoots).get(&name("a.yaml")).as_deref(), Some("own"));
    assert_eq!(texts(Links::WithinRoots).get(&name("b.yaml")), None);
    assert_eq!(texts(Links::Everywhere).get(&name("b.yaml")).as_deref(), Some("other"));
    assert_eq!(texts(Links::WithinRoots).get("/etc/passwd"), None);
}

#[test]
fn links_are_judged_the_same_without_openat2() {
    use crate::file::resolve::testing::{WithoutOpenat2, on_kernel};

    let folder = TempDir::new().unwrap();
    let place = folder.path().canonicalize().unwrap();
    let path = |name: &str| place.join(name);
    fs::create_dir(path("d")).unwrap();
    fs::write(path("d/file"), "a").unwrap();
    symlink("d", path("link")).unwrap();
    let judged = || {
        let flags = [OFlags::empty(), OFlags::NOFOLLOW, OFlags::DIRECTORY, OFlags::DIRECTORY | OFlags::NOFOLLOW];
        let all = ["", "d", "d/file", "link", "link/file", "d/../d", "d/none", "d/file/x", "link/.."];
        let one = |name: &str, flags| {
            let opened = open_unlinked(&path(name), flags);
            opened.map(|opened| (fs::read_link(descriptor(&opened)).unwrap(), name.to_owned()))
        };
        flags.into_iter().flat_map(|flags| all.map(|name| one(name, flags))).collect::<Vec<_>>()
    };
    assert_eq!(on_kernel(false, judged), on_kernel(true, judged));
    let _without = WithoutOpenat2::begin();
    only_regular_files_inside_the_roots_are_opened();
    a_file_that_is_swapped_for_a_link_is_never_read_through_it();
}

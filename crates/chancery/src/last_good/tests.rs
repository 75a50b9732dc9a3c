//! Files of one Gateway: kept, read again, damaged, somebody else's, and a disk that takes nothing.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use tempfile::TempDir;
use xds::{Change as Resources, FleetUpdate, Resource, TypeUrl, Version};

use super::*;

mod disk;

const FLEET: &str = "default/edge";

/// Why a file cannot be used, and what makes it so.
type Damage = (&'static str, fn(&Path));

/// A state folder, and a server whose fleet has what it was restored with.
struct Kept {
    state: TempDir,
    runtime: tokio::runtime::Runtime,
}

impl Kept {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        Self { state: tempfile::tempdir().expect("a folder"), runtime }
    }

    /// A process starts: its server, its files and what it found.
    fn start(&self, secrets: bool) -> (Server, LastGood, Vec<String>, BTreeSet<Arc<str>>) {
        let (events, _) = tokio::sync::mpsc::channel(1);
        let server = Server::start(self.runtime.handle(), events);
        let (files, mut found) = LastGood::open(self.state.path(), secrets);
        let problems = std::mem::take(&mut found.problems);
        let fleets = restore(&server, found, secrets);
        (server, files, problems.iter().map(ToString::to_string).collect(), fleets)
    }

    /// A journal as another process left it: this many secrets and clusters.
    fn written(&self, secrets: usize, clusters: usize) {
        let (server, mut files, ..) = self.start(secrets > 0);
        server.restore(SavedFleet::of(FLEET, resources(secrets, clusters)));
        server.save_again(&FLEET.into());
        assert_eq!(files.write(&server.take_unsaved()), Written::default());
    }

    fn file(&self) -> PathBuf {
        self.state.path().join("last-good").join(file::file_name(FLEET))
    }

    /// Names in the folder.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.state.path().join("last-good")).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn resources(secrets: usize, clusters: usize) -> Vec<Resource> {
    let of = |kind: TypeUrl, count| (0..count).map(move |number| resource(kind.clone(), &format!("name-{number}"), 1));
    of(TypeUrl::Secret, secrets).chain(of(TypeUrl::Cluster, clusters)).collect()
}

fn resource(kind: TypeUrl, name: &str, version: u128) -> Resource {
    Resource::new(kind, name, Version(version), [bytes::Bytes::from(format!("body of {name} {version}"))])
}

fn mode(path: &Path) -> u32 {
    path.metadata().expect("it is there").permissions().mode() & 0o777
}

#[test]
fn what_was_saved_is_there_for_the_next_process_and_for_nobody_else() {
    let kept = Kept::new();
    kept.written(0, 3);
    assert_eq!((mode(&kept.file()), mode(kept.file().parent().expect("a folder"))), (0o600, 0o700));
    let (server, mut files, problems, fleets) = kept.start(false);
    assert_eq!((problems, fleets), (Vec::new(), BTreeSet::from([FLEET.into()])));
    assert!(server.take_unsaved().is_empty(), "it is saved already");
    server.save_again(&FLEET.into());
    let before = std::fs::read(kept.file()).expect("a file");
    assert_eq!(files.write(&server.take_unsaved()), Written::default());
    assert_eq!(std::fs::read(kept.file()).expect("a file"), before, "the same is the same bytes");
    assert_eq!(kept.names(), ["default.edge-".to_owned() + &kept.names()[0][13..]]);
}

#[test]
fn what_was_saved_of_other_sources_is_not_used() {
    for secrets in [true, false] {
        let kept = Kept::new();
        let open = |sources: &str, secrets| LastGood::open_of(sources, kept.state.path(), secrets).expect("opened").1;
        let found = |sources: &str| open(sources, secrets);
        open("one", true);
        kept.written(1, 1);
        assert_eq!((found("one").fleets.len(), found("one").problems.len()), (1, 0));
        let of_others = found("two");
        assert!(of_others.fleets.is_empty());
        let text = &of_others.problems[0].text;
        assert!(text.contains("of other sources (one)") && text.contains("not used"), "{text}");
        assert_eq!(kept.state.path().join("last-good-of-other-sources").exists(), secrets);
        assert!(found("two").problems.is_empty() && found("one").fleets.is_empty());
    }
}

#[test]
fn secrets_are_removed_from_the_file_once_they_are_not_wanted_any_more() {
    let kept = Kept::new();
    kept.written(2, 1);
    let text = || String::from_utf8_lossy(&std::fs::read(kept.file()).expect("a file")).into_owned();
    let with = text();
    let (server, mut files, _, fleets) = kept.start(false);
    assert_eq!(fleets.len(), 1);
    let unsaved = server.take_unsaved();
    assert!(unsaved.iter().all(Unsaved::is_whole));
    files.write(&unsaved);
    assert_eq!((with.matches("body of").count(), text().matches("body of").count()), (3, 1));
}

#[test]
fn what_cannot_be_read_and_may_hold_secrets_goes_once_they_are_not_wanted_any_more() {
    let kept = Kept::new();
    let held = |kept: &Kept| {
        let bytes =
            kept.names().into_iter().map(|name| std::fs::read(kept.file().with_file_name(name)).expect("a file"));
        bytes.map(|bytes| String::from_utf8_lossy(&bytes).matches("body of").count()).sum::<usize>()
    };
    let damage = || {
        let mut bytes = std::fs::read(kept.file()).expect("a file");
        bytes[40] ^= 1;
        std::fs::write(kept.file(), bytes).expect("written");
    };
    // two are set aside while secrets are wanted, another is damaged when they are not any more
    for aside in ["damaged-1", "damaged-2"] {
        kept.written(2, 0);
        damage();
        let (_, _, problems, _) = kept.start(true);
        assert!(matches!(&problems[..], [told] if told.contains(aside)), "{problems:?}");
    }
    kept.written(2, 0);
    damage();
    assert_eq!(held(&kept), 6);
    let (_, _, problems, fleets) = kept.start(false);
    assert!(
        matches!(&problems[..], [told] if told.contains("it was removed, as it may have held private keys")),
        "{problems:?}"
    );
    assert_eq!((kept.names(), fleets.len()), (Vec::new(), 0));
    // from then on no file can hold any, and what is damaged is set aside as ever
    kept.written(0, 1);
    damage();
    assert!(kept.start(false).2[0].contains("damaged-1"));
    assert_eq!(kept.start(false).2, Vec::<String>::new());
    assert_eq!(held(&kept), 1);
}

#[test]
fn files_count_as_ones_that_may_hold_secrets_until_the_last_of_them_is_written_without() {
    let kept = Kept::new();
    kept.written(2, 1);
    drop(kept.start(false));
    assert!(kept.names().contains(&"secrets".to_owned()), "nothing was written");
    let (server, mut files, ..) = kept.start(false);
    assert_eq!(files.write(&server.take_unsaved()), Written::default());
    drop(kept.start(false));
    assert_eq!(kept.names().len(), 1);
}

#[test]
fn a_file_that_cannot_be_removed_is_told_and_removed_when_it_can_be() {
    let kept = Kept::new();
    kept.written(0, 1);
    let (server, mut files, ..) = kept.start(false);
    std::fs::remove_file(kept.file()).expect("removed");
    std::fs::create_dir(kept.file()).expect("in the way");
    server.publish(vec![FleetUpdate { fleet: "default/other".into(), changes: Vec::new() }]);
    server.forget_unpublished();
    let written = files.write(&server.take_unsaved());
    assert!(
        written.again.is_empty() && written.failure.is_some_and(|told| told.contains("mend that: it is tried again"))
    );
    std::fs::remove_dir(kept.file()).expect("removed");
    std::fs::write(kept.file(), "").expect("written");
    assert_eq!((files.write(&[]), kept.names()), (Written::default(), Vec::new()));
}

#[test]
fn a_gateway_that_is_no_more_has_no_file() {
    let kept = Kept::new();
    kept.written(0, 1);
    let (server, mut files, ..) = kept.start(false);
    server.publish(vec![FleetUpdate { fleet: "default/other".into(), changes: Vec::new() }]);
    server.forget_unpublished();
    files.write(&server.take_unsaved());
    assert_eq!(kept.names(), Vec::<String>::new());
}

#[test]
fn what_cannot_be_used_is_set_aside_with_a_problem_that_says_why() {
    let damage: [Damage; 6] = [
        ("damaged saved xDS state", |path| {
            let mut bytes = std::fs::read(path).expect("a file");
            bytes[40] ^= 1;
            std::fs::write(path, bytes).expect("written");
        }),
        ("something else than saved xDS state", |path| std::fs::write(path, "XDSC and more").expect("written")),
        ("format 1 of saved xDS state, which this version of the program does not read", |path| {
            let mut bytes = std::fs::read(path).expect("a file");
            bytes[7] = 1;
            std::fs::write(path, bytes).expect("written");
        }),
        ("a symbolic link, not a file", |path| {
            let other = path.with_extension("other");
            std::fs::rename(path, &other).expect("renamed");
            symlink(other, path).expect("a link");
        }),
        ("others than the user of this process can write it", |path| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o620)).expect("permissions");
        }),
        ("it is of default/edge by what it holds, and of another Gateway by its name", |path| {
            std::fs::rename(path, path.with_file_name("other-0123456789abcdef.journal")).expect("renamed");
        }),
    ];
    for (reason, damage) in damage {
        let kept = Kept::new();
        kept.written(0, 3);
        damage(&kept.file());
        let (server, mut files, problems, fleets) = kept.start(false);
        let [told] = &problems[..] else { panic!("one problem: {problems:?}") };
        assert!(told.contains(reason) && told.contains(".damaged-1"), "{told}");
        assert!(fleets.is_empty() && kept.names().iter().any(|name| name.ends_with(".journal.damaged-1")));
        // it begins anew
        server.restore(SavedFleet::of(FLEET, resources(0, 1)));
        server.save_again(&FLEET.into());
        assert_eq!(files.write(&server.take_unsaved()), Written::default());
        assert_eq!(kept.start(false).3.len(), 1, "{reason}");
    }
}

#[test]
fn few_files_are_kept_that_were_set_aside() {
    let kept = Kept::new();
    for _ in 0..6 {
        kept.written(0, 1);
        std::fs::write(kept.file(), "nothing").expect("written");
        assert_eq!(kept.start(false).2.len(), 1);
    }
    let endings: Vec<_> = kept.names().iter().map(|name| name[name.len() - 9..].to_owned()).collect();
    assert_eq!(endings, ["damaged-1", "damaged-2", "damaged-3", "damaged-4"]);
}

#[test]
fn what_others_could_read_is_made_ours_alone_and_the_rest_of_a_write_is_cut_off() {
    let kept = Kept::new();
    kept.written(0, 2);
    let whole = std::fs::read(kept.file()).expect("a file");
    std::fs::write(kept.file(), [&whole[..], &whole[8..30]].concat()).expect("written");
    std::fs::write(kept.file().with_extension("new"), "half").expect("written");
    std::fs::set_permissions(kept.file(), std::fs::Permissions::from_mode(0o644)).expect("permissions");
    let (.., problems, fleets) = kept.start(false);
    assert_eq!((problems, fleets.len(), mode(&kept.file())), (Vec::new(), 1, 0o600));
    assert_eq!((std::fs::read(kept.file()).expect("a file"), kept.names().len()), (whole, 1));
}

#[test]
fn a_disk_that_takes_nothing_loses_nothing_once_it_does() {
    let kept = Kept::new();
    kept.written(0, 2);
    let (server, mut files, ..) = kept.start(false);
    let folder = kept.file().parent().expect("a folder").to_owned();
    std::fs::remove_dir_all(&folder).expect("removed");
    std::fs::write(&folder, "in the way").expect("written");
    server.save_again(&FLEET.into());
    let written = files.write(&server.take_unsaved());
    assert_eq!((written.again, written.failure.is_some()), (vec![FLEET.into()], true));
    server.save_again(&FLEET.into());
    std::fs::remove_file(&folder).expect("removed");
    assert_eq!(files.write(&server.take_unsaved()), Written::default());
    assert_eq!(kept.start(false).3.len(), 1);
}

#[test]
fn a_file_that_another_program_changed_is_written_anew() {
    let kept = Kept::new();
    kept.written(0, 2);
    let (_server, files, ..) = kept.start(false);
    let bytes = [std::fs::read(kept.file()).expect("a file"), vec![1]].concat();
    std::fs::write(kept.file(), &bytes).expect("written");
    let length = bytes.len() as u64;
    let part = || std::iter::once(vec![7; 10]);
    assert!(file::append(&files.folder, FLEET, length - 1, part()).is_err());
    assert_eq!(file::append(&files.folder, FLEET, length, part()).expect("added"), length + 10);
}

#[test]
fn names_of_files_are_readable_safe_and_different() {
    let names = ["default/edge", "default.edge", "../../etc/passwd", "a\0b\n", "ü/ö", "", &"x".repeat(500)]
        .map(file::file_name);
    for name in &names {
        assert!(name.len() < 80 && !name.starts_with('.') && !name.contains(['/', '\0', '\n']), "{name}");
    }
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}

#[test]
fn published_resources_that_nobody_has_acknowledged_are_not_saved() {
    let kept = Kept::new();
    let (server, mut files, ..) = kept.start(true);
    let changes = vec![Resources::Put(resource(TypeUrl::Cluster, "a", 1).into())];
    server.publish(vec![FleetUpdate { fleet: FLEET.into(), changes }]);
    files.write(&server.take_unsaved());
    assert_eq!(kept.names(), Vec::<String>::new());
}

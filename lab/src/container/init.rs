//! The first process of a container: it makes the root folder, takes the container's credentials, and becomes its program.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid, fchown, pivot_root};
use rustix::fs::XattrFlags;

use super::{Mount, Root, Spec};

/// Exit code of a container whose program could not be started, as runtimes give it.
const CANNOT_START: u8 = 128;

/// Where the machine's own root is, until everything is mounted.
const MACHINE: &str = "/.machine";

/// Folders of the machine that every image shows. Whatever else lies beside them is empty: homes, work in progress, runtime files.
const SHOWN: [&str; 10] = ["bin", "boot", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "usr"];

/// A mount that is only a flag.
const NONE: Option<&str> = None;

/// Does not return if it goes well. What goes wrong is told on standard input, a pipe.
pub(crate) fn become_program(file: &Path) -> anyhow::Result<ExitCode> {
    // closed by the start of the program
    let tells = std::io::stdin().as_fd().try_clone_to_owned()?;
    let Err(error) = super::read(file).and_then(|spec| replace(&spec));
    let mut tells = File::from(tells);
    tells.write_all(format!("{error:#}").as_bytes())?;
    Ok(CANNOT_START.into())
}

fn replace(spec: &Spec) -> anyhow::Result<std::convert::Infallible> {
    umask(Mode::from_bits_truncate(0o022));
    unshare(CloneFlags::CLONE_NEWNS).context("making a namespace of mounts")?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE).context("parting the mounts")?;
    enter_root(&spec.root)?;
    mount_own().context("the container's own mounts")?;
    for wanted in &spec.mounts {
        bind(wanted).with_context(|| format!("mounting {}", wanted.target.display()))?;
    }
    umount2(MACHINE, MntFlags::MNT_DETACH).context("leaving the machine's root")?;
    fs::remove_dir(MACHINE)?;
    if spec.root.read_only {
        mount(NONE, "/", NONE, MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY, NONE)?;
    }
    fs::create_dir_all(&spec.directory).ok();
    std::env::set_current_dir(&spec.directory)
        .with_context(|| format!("the working folder {}", spec.directory.display()))?;
    // programs open /dev/stdout, which asks for the rights of a file
    let owner = (Some(Uid::from_raw(spec.credentials.user)), Some(Gid::from_raw(spec.credentials.group)));
    fchown(std::io::stdout().as_fd(), owner.0, owner.1)?;
    fchown(std::io::stderr().as_fd(), owner.0, owner.1)?;
    spec.credentials.take()?;
    // a change of the user takes this back, so that it comes last
    set_pdeathsig(Signal::SIGKILL)?;
    let (program, arguments) = spec.command.split_first().context("no command")?;
    let error = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(spec.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .exec();
    Err(anyhow::Error::from(error).context(format!("exec: \"{program}\"")))
}

/// Makes the machine's root with the container's own files above it the root folder.
fn enter_root(root: &Root) -> anyhow::Result<()> {
    let (upper, work, merged) = (root.folder.join("upper"), root.folder.join("work"), root.folder.join("root"));
    for folder in [&upper, &work, &merged] {
        fs::create_dir_all(folder)?;
    }
    hide(&upper)?;
    let options = format!("lowerdir=/,upperdir={},workdir={}", upper.display(), work.display());
    mount(Some("overlay"), &merged, Some("overlay"), MsFlags::empty(), Some(options.as_str()))
        .context("the overlay")?;
    let machine = merged.join(MACHINE.trim_start_matches('/'));
    fs::create_dir_all(&machine)?;
    pivot_root(&merged, &machine).context("changing the root")?;
    Ok(std::env::set_current_dir("/")?)
}

/// Empties folders of the machine that no image has.
fn hide(upper: &Path) -> anyhow::Result<()> {
    const OPAQUE: &str = "trusted.overlay.opaque";
    for entry in fs::read_dir("/")? {
        let entry = entry?;
        let name = entry.file_name();
        if !entry.file_type()?.is_dir() || SHOWN.iter().any(|shown| name == *shown) {
            continue;
        }
        let folder = upper.join(&name);
        fs::create_dir_all(&folder)?;
        rustix::fs::setxattr(&folder, OPAQUE, b"y", XattrFlags::empty()).context("hiding a folder")?;
        let mode = if name == "tmp" { 0o1777 } else { 0o755 };
        fs::set_permissions(&folder, Permissions::from_mode(mode))?;
    }
    let temporary = upper.join("var/tmp");
    fs::create_dir_all(&temporary)?;
    fs::set_permissions(&temporary, Permissions::from_mode(0o1777))?;
    Ok(symlink("/run", upper.join("var/run")).or_else(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Ok(()),
        _ => Err(error),
    })?)
}

/// `/proc`, `/sys` and `/dev`, as every container has them.
fn mount_own() -> anyhow::Result<()> {
    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC | MsFlags::MS_NODEV;
    for folder in ["/proc", "/sys", "/dev"] {
        fs::create_dir_all(folder)?;
    }
    mount(Some("proc"), "/proc", Some("proc"), safe, NONE).context("/proc")?;
    mount(Some("sysfs"), "/sys", Some("sysfs"), safe | MsFlags::MS_RDONLY, NONE).context("/sys")?;
    mount(Some("tmpfs"), "/dev", Some("tmpfs"), MsFlags::MS_NOSUID, Some("mode=755,size=64k")).context("/dev")?;
    for device in ["null", "zero", "full", "random", "urandom", "tty"] {
        let device = Path::new("/dev").join(device);
        File::create(&device)?;
        mount(Some(&machine(&device)), &device, NONE, MsFlags::MS_BIND, NONE)?;
    }
    for (name, target) in [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        symlink(format!("/proc/self/{target}"), Path::new("/dev").join(name))?;
    }
    fs::create_dir("/dev/pts")?;
    mount(Some("devpts"), "/dev/pts", Some("devpts"), MsFlags::MS_NOSUID, Some("newinstance,ptmxmode=0666,mode=620"))?;
    symlink("pts/ptmx", "/dev/ptmx")?;
    fs::create_dir("/dev/shm")?;
    Ok(mount(Some("shm"), "/dev/shm", Some("tmpfs"), safe, Some("mode=1777,size=64m"))?)
}

/// Shows a file or folder of the machine.
fn bind(wanted: &Mount) -> anyhow::Result<()> {
    let source = machine(&wanted.source);
    // a link is followed by what is mounted already: `/var/run`
    if fs::metadata(&source).with_context(|| format!("{}", wanted.source.display()))?.is_dir() {
        fs::create_dir_all(&wanted.target)?;
    } else if !wanted.target.exists() {
        fs::create_dir_all(wanted.target.parent().unwrap_or(Path::new("/")))?;
        File::create(&wanted.target)?;
    }
    mount(Some(&source), &wanted.target, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)?;
    if wanted.read_only {
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(NONE, &wanted.target, NONE, flags, NONE)?;
    }
    Ok(())
}

/// A path of the machine, as it is seen while its root is at hand.
fn machine(path: &Path) -> PathBuf {
    Path::new(MACHINE).join(path.strip_prefix("/").unwrap_or(path))
}

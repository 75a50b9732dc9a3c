//! The binary under test and the pinned Envoy.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use anyhow::Context as _;

use crate::wait;

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or_else(|| Path::new(".")).to_path_buf()
}

/// The `chancery` that was built with these tests: it lies beside them in the target folder.
///
/// # Errors
/// If it has not been built.
pub fn chancery() -> anyhow::Result<PathBuf> {
    let test = std::env::current_exe()?;
    let found = test.ancestors().skip(1).take(2).map(|folder| folder.join("chancery")).find(|path| path.is_file());
    found.context("the chancery binary is not built; run `make test`, or `cargo build --package chancery` first")
}

/// The pinned Envoy.
///
/// # Errors
/// If it is not installed.
pub fn envoy() -> anyhow::Result<PathBuf> {
    let named = std::env::var_os("CHANCERY_ENVOY").map(PathBuf::from);
    let path = named.unwrap_or_else(|| root().join(".tools/envoy/1.40.0/bin/envoy"));
    anyhow::ensure!(path.is_file(), "no Envoy at {}; run `make tools`", path.display());
    Ok(path)
}

/// Runs the binary with these arguments and text on standard input, and waits for its end.
///
/// # Errors
/// If it cannot be started or fed, or does not end in time.
pub fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>, input: &str) -> anyhow::Result<Output> {
    use std::io::Write as _;
    let mut child = Command::new(chancery()?)
        .args(args)
        .env_remove("CHANCERY_STATE_DIR")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    // The verb may end without reading everything, for example on wrong usage.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    until_end(child)
}

/// Runs a program without any input, and waits for its end.
///
/// # Errors
/// If it cannot be started, or does not end in time.
pub fn run_to_end(program: &mut Command) -> anyhow::Result<Output> {
    until_end(program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

/// Waits for the end of a process whose output is piped. One that goes on is ended, so that a test of it fails.
fn until_end(mut child: Child) -> anyhow::Result<Output> {
    fn reader(pipe: impl Read + Send + 'static) -> thread::JoinHandle<std::io::Result<Vec<u8>>> {
        thread::spawn(move || {
            let (mut pipe, mut bytes) = (pipe, Vec::new());
            pipe.read_to_end(&mut bytes).map(|_| bytes)
        })
    }
    let stdout = reader(child.stdout.take().context("no standard output")?);
    let stderr = reader(child.stderr.take().context("no standard error")?);
    let ended = wait::until("the end of the process", || child.try_wait().transpose());
    if ended.is_err() {
        child.kill()?;
        child.wait()?;
    }
    let read = |reader: thread::JoinHandle<std::io::Result<Vec<u8>>>| {
        anyhow::Ok(reader.join().map_err(|_| anyhow::anyhow!("a reader panicked"))??)
    };
    let (stdout, stderr) = (read(stdout)?, read(stderr)?);
    let status = ended.with_context(|| String::from_utf8_lossy(&stderr).into_owned())??;
    Ok(Output { status, stdout, stderr })
}

//! A Chancery with its Envoys on a folder of the test's own; everything ends with the test.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::{binary, wait};

/// The process under test.
pub struct Running {
    place: TempDir,
    child: Option<Child>,
    starts: u32,
    more: Vec<String>,
    envoy: Option<PathBuf>,
    chancery: Option<PathBuf>,
    drain: &'static str,
}

impl Running {
    /// Makes the folders; nothing runs yet.
    ///
    /// # Errors
    /// If there is no room for a temporary folder.
    pub fn prepare() -> anyhow::Result<Self> {
        let place = tempfile::Builder::new().prefix("chancery-test-").tempdir()?;
        std::fs::create_dir(place.path().join("conf"))?;
        Ok(Self { place, child: None, starts: 0, more: Vec::new(), envoy: None, chancery: None, drain: "0s" })
    }

    /// Starts it with these arguments more.
    #[must_use]
    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.more.extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// Gives connections of an Envoy that is replaced this long, instead of no time.
    #[must_use]
    pub fn with_drain(mut self, time: &'static str) -> Self {
        self.drain = time;
        self
    }

    /// Starts this program from now on.
    pub fn use_chancery(&mut self, program: PathBuf) {
        self.chancery = Some(program);
    }

    /// Starts it with this Envoy from now on.
    pub fn use_envoy(&mut self, program: PathBuf) {
        self.envoy = Some(program);
    }

    /// Writes a file of the folder as editors do: a new file renamed over the old one.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let beside = self.conf().join(format!(".{name}.new"));
        std::fs::write(&beside, text)?;
        Ok(std::fs::rename(beside, self.conf().join(name))?)
    }

    /// Removes a file of the folder.
    ///
    /// # Errors
    /// If it is not there.
    pub fn remove(&self, name: &str) -> anyhow::Result<()> {
        Ok(std::fs::remove_file(self.conf().join(name))?)
    }

    /// Starts `chancery run` on the folder and waits until it says that it is ready.
    ///
    /// # Errors
    /// If it ends, or is not ready in time: its log is in the error.
    pub fn start(&mut self) -> anyhow::Result<()> {
        self.begin()?;
        self.until_ready()
    }

    /// Starts `chancery run` on the folder.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn begin(&mut self) -> anyhow::Result<()> {
        self.starts += 1;
        let log = File::options().create(true).append(true).open(self.log_file())?;
        let child = Command::new(self.chancery.clone().map_or_else(binary::chancery, Ok)?)
            .args(["run", "--drain-time", self.drain, "--dir"])
            .arg(self.conf())
            .arg("--state-dir")
            .arg(self.state())
            .arg("--ready-file")
            .arg(self.ready_file())
            .arg("--envoy")
            .arg(self.envoy.clone().map_or_else(binary::envoy, Ok)?)
            .args(&self.more)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.child = Some(child);
        Ok(())
    }

    /// Waits until it says that it is ready.
    ///
    /// # Errors
    /// If it ends, or is not ready in time: its log is in the error.
    pub fn until_ready(&mut self) -> anyhow::Result<()> {
        let ready = self.ready_file();
        let child = self.child.as_mut().context("chancery does not run")?;
        let outcome = wait::until("chancery to be ready", || {
            if ready.exists() { Some(Ok(())) } else { child.try_wait().ok().flatten().map(Err) }
        });
        match outcome {
            Ok(Ok(())) => Ok(()),
            Ok(Err(status)) => anyhow::bail!("chancery ended with {status}:\n{}", self.log()),
            Err(error) => Err(error.context(self.log())),
        }
    }

    /// What it makes when it is ready, another at each start.
    pub fn ready_file(&self) -> PathBuf {
        self.place.path().join(format!("ready-{}", self.starts))
    }

    /// The folder of the objects.
    pub fn conf(&self) -> PathBuf {
        self.place.path().join("conf")
    }

    /// The state folder.
    pub fn state(&self) -> PathBuf {
        self.place.path().join("state")
    }

    /// What its admin socket answers to a GET, head and body; none if it does not.
    pub fn asked(&self, path: &str) -> Option<String> {
        let mut answer = String::new();
        ask(&self.state(), path).ok()?.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// Everything that was logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// The process id of Chancery.
    ///
    /// # Errors
    /// If it does not run.
    pub fn pid(&self) -> anyhow::Result<Pid> {
        let child = self.child.as_ref().context("chancery does not run")?;
        Ok(Pid::from_raw(i32::try_from(child.id())?))
    }

    /// A figure of Chancery's memory in bytes, by its name in `/proc/<pid>/status` (proc(5)): `VmRSS` is in use, `VmHWM` was the peak.
    ///
    /// # Errors
    /// If it does not run.
    pub fn memory(&self, figure: &str) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix(figure)?.strip_prefix(':'));
        let kibibytes: u64 = line.context("no such figure")?.trim().trim_end_matches(" kB").parse()?;
        Ok(kibibytes << 10)
    }

    /// Waits until `chancery status problems` has these words.
    ///
    /// # Errors
    /// If they do not come in time.
    pub fn until_problem(&self, words: &str) -> anyhow::Result<()> {
        wait::until(words, || self.status(&["problems"]).ok()?.contains(words).then_some(()))
    }

    /// Ends Chancery with -9; its Envoys go on.
    ///
    /// # Errors
    /// If it does not run.
    pub fn kill_chancery(&mut self) -> anyhow::Result<()> {
        let mut child = self.child.take().context("chancery does not run")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Sends a signal to Chancery and waits until it has ended.
    ///
    /// # Errors
    /// If it does not run, or does not end in time.
    pub fn end_with(&mut self, signal: Signal) -> anyhow::Result<()> {
        kill(self.pid()?, signal)?;
        self.until_ended()
    }

    /// Waits until Chancery has ended.
    ///
    /// # Errors
    /// If it does not run, or does not end in time.
    pub fn until_ended(&mut self) -> anyhow::Result<()> {
        let child = self.child.as_mut().context("chancery does not run")?;
        wait::until("chancery to end", || child.try_wait().ok().flatten())?;
        self.child = None;
        Ok(())
    }

    /// Has every Envoy write down all that it does.
    ///
    /// # Errors
    /// If one of them does not answer at its admin socket.
    pub fn trace_envoys(&self) -> anyhow::Result<()> {
        for gateway in std::fs::read_dir(self.state().join("gateways"))? {
            let mut admin = admin_of(&gateway?.path())?;
            write!(admin, "POST /logging?level=trace HTTP/1.1\r\nhost: envoy\r\nconnection: close\r\n\r\n")?;
            let mut answer = String::new();
            admin.read_to_string(&mut answer)?;
            anyhow::ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        Ok(())
    }

    /// How much the Envoys have logged, in bytes.
    pub fn logged_by_envoys(&self) -> u64 {
        let gateways = std::fs::read_dir(self.state().join("gateways")).into_iter().flatten().flatten();
        gateways.filter_map(|gateway| Some(gateway.path().join("envoy.log").metadata().ok()?.len())).sum()
    }

    /// The process ids of the Envoys that were started for this state folder and live.
    pub fn envoys(&self) -> Vec<Pid> {
        envoys(&self.state())
    }

    /// `chancery status` with these words.
    ///
    /// # Errors
    /// If it cannot be run.
    pub fn status(&self, words: &[&str]) -> anyhow::Result<String> {
        let state = self.state().display().to_string();
        let output =
            binary::run(["status"].into_iter().chain(words.iter().copied()).chain(["--state-dir", &state]), "")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
    }

    fn log_file(&self) -> PathBuf {
        self.place.path().join("log")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            if let Ok(id) = i32::try_from(child.id()) {
                let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
            }
            let ended = wait::until("chancery to end", || child.try_wait().ok().flatten());
            if ended.is_err() {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        for envoy in self.envoys() {
            let memory = shared_memory(envoy);
            let _ = kill(envoy, Signal::SIGKILL);
            let _ = memory.map(std::fs::remove_file);
        }
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(60).collect();
            let shown: String = tail.into_iter().rev().map(|line| format!("  {line}\n")).collect();
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("the end of chancery's log:\n{shown}").as_bytes(),
            );
        }
    }
}

/// Connects to the admin interface of the Envoy whose folder this is. Its socket has a name of 16 digits.
///
/// # Errors
/// If there is none, or it does not answer.
pub fn admin_of(folder: &Path) -> std::io::Result<UnixStream> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let names = std::fs::read_dir(folder)?.flatten().map(|entry| entry.file_name());
    let name =
        names.filter_map(|name| name.into_string().ok()).find(|name| name.len() == 16 && name.bytes().all(is_digit));
    UnixStream::connect(folder.join(name.ok_or(std::io::ErrorKind::NotFound)?))
}

/// Asks the admin socket of a state folder for a path; the answer can be read from what this gives, and the connection is closed behind it.
///
/// # Errors
/// If there is no socket or no token.
pub fn ask(state: &Path, path: &str) -> std::io::Result<UnixStream> {
    let mut admin = UnixStream::connect(state.join("admin.sock"))?;
    let token = std::fs::read_to_string(state.join("admin.token"))?;
    write!(
        admin,
        "GET {path} HTTP/1.1\r\nhost: chancery\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    )?;
    Ok(admin)
}

/// The file of the memory that an Envoy shares with its successor. Chancery removes it, unless it is gone before its Envoy.
fn shared_memory(envoy: Pid) -> Option<PathBuf> {
    let line = std::fs::read_to_string(format!("/proc/{envoy}/cmdline")).ok()?;
    let base: u32 = line.split('\0').skip_while(|word| *word != "--base-id").nth(1)?.parse().ok()?;
    Some(Path::new("/dev/shm").join(format!("envoy_shared_memory_{}", base * 10)))
}

/// Processes that were started below the state folder and whose program is Envoy.
fn envoys(state: &Path) -> Vec<Pid> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = processes.flatten().filter_map(|entry| entry.file_name().to_string_lossy().parse::<i32>().ok());
    ids.filter(|id| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let is_envoy = line.split('\0').next().is_some_and(|program| program.ends_with("envoy"));
        is_envoy && std::fs::read_link(format!("/proc/{id}/cwd")).is_ok_and(|folder| folder.starts_with(state))
    })
    .map(Pid::from_raw)
    .collect()
}

//! Chancery as a process: started on a folder, its CPU and memory read from the kernel, ended with the benchmark.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// How long anything may take before a benchmark gives up.
pub(crate) const DEADLINE: Duration = Duration::from_secs(600);

/// A running Chancery.
pub(crate) struct Chancery {
    place: TempDir,
    child: Child,
    /// When it was started.
    pub(crate) started: Instant,
}

impl Chancery {
    /// A temporary folder with a folder `conf` for the objects.
    pub(crate) fn place() -> anyhow::Result<(TempDir, PathBuf)> {
        let place = tempfile::Builder::new().prefix("chancery-bench-").tempdir()?;
        let conf = place.path().join("conf");
        std::fs::create_dir(&conf)?;
        Ok((place, conf))
    }

    /// Starts it on the folder `conf` of a place; without an Envoy it serves xDS only.
    pub(crate) fn start(place: TempDir, envoy: Option<&Path>) -> anyhow::Result<Self> {
        let started = Instant::now();
        let child = Self::spawn(&place, envoy)?;
        Ok(Self { place, child, started })
    }

    /// Ends it, and starts it again with its folder of objects away.
    pub(crate) fn restart_without_objects(&mut self) -> anyhow::Result<()> {
        self.stop();
        std::fs::rename(self.conf(), self.place.path().join("away"))?;
        self.started = Instant::now();
        self.child = Self::spawn(&self.place, None)?;
        Ok(())
    }

    fn spawn(place: &TempDir, envoy: Option<&Path>) -> anyhow::Result<Child> {
        let binary = binary()?;
        let log = std::fs::File::create(place.path().join("log"))?;
        let mut command = Command::new(binary);
        command
            .arg("run")
            .arg("--dir")
            .arg(place.path().join("conf"))
            .arg("--state-dir")
            .arg(place.path().join("state"));
        command.args(["--drain-time", "0s", "--log-level", "warn", "--ready-file"]).arg(place.path().join("ready"));
        match envoy {
            Some(envoy) => command.arg("--envoy").arg(envoy),
            None => command.arg("--no-envoy"),
        };
        Ok(command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?)
    }

    /// The folder of the objects.
    pub(crate) fn conf(&self) -> PathBuf {
        self.place.path().join("conf")
    }

    /// Its state folder.
    pub(crate) fn state(&self) -> PathBuf {
        self.place.path().join("state")
    }

    /// Waits until it says that it is ready.
    pub(crate) fn wait_ready(&mut self) -> anyhow::Result<()> {
        let ready = self.place.path().join("ready");
        while !ready.exists() {
            anyhow::ensure!(self.started.elapsed() < DEADLINE, "not ready in {DEADLINE:?}");
            self.check_alive()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// The socket of this name (`xds.sock`, `admin.sock`) of its only Gateway, once it is there.
    pub(crate) fn socket(&mut self, name: &str) -> anyhow::Result<PathBuf> {
        let gateways = self.state().join("gateways");
        loop {
            for entry in std::fs::read_dir(&gateways).into_iter().flatten().flatten() {
                let socket = entry.path().join(name);
                if socket.exists() {
                    return Ok(socket);
                }
            }
            anyhow::ensure!(self.started.elapsed() < DEADLINE, "no {name} below {}", gateways.display());
            self.check_alive()?;
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// An error with its log if it has ended.
    pub(crate) fn check_alive(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            Some(status) => anyhow::bail!("chancery ended with {status}: {}", self.log()),
            None => Ok(()),
        }
    }

    /// Everything that it said.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.place.path().join("log")).unwrap_or_default()
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// CPU time of all its threads so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        Ok(self.threads()?.values().sum())
    }

    /// The same by the names of its threads.
    pub(crate) fn threads(&self) -> anyhow::Result<BTreeMap<String, Duration>> {
        cpu_of(self.child.id())
    }

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        memory_of(self.child.id(), "VmRSS:")
    }
}

impl Chancery {
    /// Ends it, and with it its Envoy; its folder stays until it is dropped.
    pub(crate) fn stop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        if let Ok(id) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        }
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(30) {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Chancery {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A line of a process's status that is an amount of memory, in bytes.
pub(crate) fn memory_of(process: u32, line: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line =
        status.lines().find(|found| found.starts_with(line)).context("no such line in the status of a process")?;
    let kilobytes: u64 = line.split_whitespace().nth(1).context("no amount of memory")?.parse()?;
    Ok(kilobytes * 1024)
}

/// CPU time of the threads of a process by their names, in the scheduler's nanoseconds.
pub(crate) fn cpu_of(process: u32) -> anyhow::Result<BTreeMap<String, Duration>> {
    let mut times = BTreeMap::new();
    for Thread { name, cpu, .. } in threads_of(process)? {
        *times.entry(name).or_default() += cpu;
    }
    Ok(times)
}

/// CPU time that a process has spent since these were its threads. A thread that has ended since takes what it spent along, so that the
/// sum of all may fall.
pub(crate) fn spent_since(process: u32, before: &[Thread]) -> anyhow::Result<Duration> {
    let of = |id| before.iter().find(|thread| thread.id == id).map(|thread| thread.cpu).unwrap_or_default();
    Ok(threads_of(process)?.iter().map(|thread| thread.cpu.saturating_sub(of(thread.id))).sum())
}

/// A thread and the CPU time that it has had.
pub(crate) struct Thread {
    id: u32,
    name: String,
    cpu: Duration,
}

/// The threads that a process has now.
pub(crate) fn threads_of(process: u32) -> anyhow::Result<Vec<Thread>> {
    let mut threads = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let task = task?;
        let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let nanoseconds = read("schedstat").split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default();
        let id = task.file_name().to_str().and_then(|name| name.parse().ok()).unwrap_or_default();
        threads.push(Thread { id, name: read("comm").trim_end().to_owned(), cpu: Duration::from_nanos(nanoseconds) });
    }
    Ok(threads)
}

/// The binary, which is built beside this one.
pub(crate) fn binary() -> anyhow::Result<PathBuf> {
    let binary = std::env::current_exe()?.with_file_name("chancery");
    anyhow::ensure!(binary.is_file(), "{} is not built", binary.display());
    Ok(binary)
}

/// The value of `authorization` that streams on an xDS socket need, if its folder has a token.
pub(crate) fn authorization(socket: &Path) -> Option<String> {
    let token = std::fs::read_to_string(socket.with_file_name("token")).ok()?;
    Some(format!("Bearer {}", token.trim()))
}

/// The Envoy to measure.
pub(crate) fn envoy() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("CHANCERY_ENVOY")
        .map_or_else(|| Path::new(".tools/envoy/1.40.0/bin/envoy").into(), PathBuf::from);
    anyhow::ensure!(path.is_file(), "no Envoy at {}; run `make tools`", path.display());
    Ok(path)
}

//! Processes of pods and containers, as tasks see them: started, told, ended. What they are made of is in `crate::container`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, bail, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStdin, Command};

use crate::container::sandbox::HELD;
use crate::container::{FAILED, STARTED, Spec, Word};
use crate::keeper::SELF;
use crate::process::exit_code;

/// Holds the namespaces that the containers of a pod share, until it is dropped.
pub(crate) struct Sandbox {
    child: Child,
    /// Its end is the holder's; waiting for the child would close it.
    _input: ChildStdin,
    pub(crate) pid: u32,
}

impl Sandbox {
    /// Starts one, with a network that has nothing yet.
    pub(crate) async fn start(hostname: &str, sysctls: &[String]) -> anyhow::Result<Self> {
        let mut child = Command::new(SELF)
            .args(["sandbox", hostname])
            .args(sysctls)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().context("it ended at once")?;
        let input = child.stdin.take().context("no input")?;
        let mut said = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut said).await?;
        }
        if said.trim() != HELD {
            let mut why = String::new();
            if let Some(mut errors) = child.stderr.take() {
                errors.read_to_string(&mut why).await?;
            }
            bail!("{}", why.trim());
        }
        Ok(Self { child, _input: input, pid })
    }

    /// Until it ends, which nobody wants.
    pub(crate) async fn ended(&mut self) {
        let _status = self.child.wait().await;
    }
}

/// A container that runs. Dropped, it ends.
pub(crate) struct Running {
    child: Child,
    control: OwnedWriteHalf,
    /// Its first process, as the lab numbers it.
    pub(crate) pid: u32,
    pub(crate) spec: PathBuf,
}

/// What a container writes.
pub(crate) struct Output {
    pub(crate) stdout: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) stderr: Box<dyn AsyncRead + Send + Unpin>,
}

/// Starts a container. The inner error is its own: a program that is not there, a mount that fails.
pub(crate) async fn start(spec: &Spec, folder: &Path) -> anyhow::Result<Result<(Running, Output), String>> {
    tokio::fs::create_dir_all(folder).await?;
    let file = folder.join("spec.json");
    tokio::fs::write(&file, serde_json::to_vec(spec)?).await?;
    let (control, theirs) = UnixStream::pair()?;
    let mut child = Command::new(SELF)
        .arg("container")
        .arg(&file)
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(blocking(theirs)?)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (reads, control) = control.into_split();
    let output = Output {
        stdout: Box::new(child.stdout.take().context("no output")?),
        stderr: Box::new(child.stderr.take().context("no output")?),
    };
    match answer(reads).await? {
        Ok(pid) => Ok(Ok((Running { child, control, pid, spec: file }, output))),
        Err(why) => {
            child.wait().await?;
            Ok(Err(why))
        }
    }
}

/// What `lab container` says of the start.
async fn answer(reads: OwnedReadHalf) -> anyhow::Result<Result<u32, String>> {
    let mut line = String::new();
    BufReader::new(reads).read_line(&mut line).await?;
    let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    match word {
        STARTED => Ok(Ok(rest.parse()?)),
        FAILED => Ok(Err(rest.to_owned())),
        _ => bail!("the container ended while it started"),
    }
}

impl Running {
    /// Tells it something; one that has ended hears nothing.
    pub(crate) async fn tell(&mut self, word: Word) {
        let _ended = self.control.write_all(&[word.byte()]).await;
    }

    /// Waits for its end, and gives its exit code.
    pub(crate) async fn end(&mut self) -> u8 {
        match self.child.wait().await {
            Ok(status) => exit_code(status),
            Err(_) => u8::MAX,
        }
    }

    /// Where more commands can join it.
    pub(crate) fn joint(&self) -> Joint {
        Joint { spec: self.spec.clone(), pid: self.pid }
    }
}

/// A container that commands can join.
#[derive(Debug, Clone)]
pub(crate) struct Joint {
    pub(crate) spec: PathBuf,
    pub(crate) pid: u32,
}

impl Joint {
    /// Runs a command in it, and gives its exit code and the beginning of what it said. Dropped, the command ends.
    pub(crate) async fn run(&self, command: &[String]) -> anyhow::Result<(u8, String)> {
        const SHOWN: u64 = 10 << 10;
        ensure!(!command.is_empty(), "no command");
        let (_control, theirs) = UnixStream::pair()?;
        let mut child = Command::new(SELF)
            .arg("join")
            .arg(&self.spec)
            .args([&self.pid.to_string(), "--"])
            .args(command)
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(blocking(theirs)?)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(false)
            .spawn()?;
        let (stdout, stderr) = (child.stdout.take().context("no output")?, child.stderr.take().context("no output")?);
        let read = async |mut output: Box<dyn AsyncRead + Send + Unpin>| {
            let mut said = Vec::new();
            let mut shown = (&mut output).take(SHOWN);
            let _cut = shown.read_to_end(&mut said).await;
            let _rest = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
            said
        };
        let (out, errors, status) = tokio::join!(read(Box::new(stdout)), read(Box::new(stderr)), child.wait());
        let said = String::from_utf8_lossy(&[out, errors].concat()).trim().to_owned();
        Ok((exit_code(status?), said))
    }
}

/// As processes expect their standard input.
fn blocking(stream: UnixStream) -> std::io::Result<std::os::unix::net::UnixStream> {
    let stream = stream.into_std()?;
    stream.set_nonblocking(false)?;
    Ok(stream)
}

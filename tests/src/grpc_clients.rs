//! gRPC clients and servers of other languages as child processes, which get their configuration over xDS.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context as _;

use crate::binary::root;

/// Longest wait for a lot of calls, each of which has a deadline of 12 s: well below the 15 s after which a client gives up waiting
/// for a resource, so that a call that had to wait for that is reported as `DEADLINE_EXCEEDED`.
const LONGEST: Duration = Duration::from_secs(120);

/// A pinned implementation of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C-core's.
    Python,
    /// grpc-js.
    Node,
    /// grpc-go.
    Go,
}

impl Language {
    /// Every language.
    pub const ALL: [Self; 3] = [Self::Python, Self::Node, Self::Go];

    /// The program of `client.*`, with this bootstrap.
    fn command(self, bootstrap: &Path) -> Command {
        let mut command = match self {
            Self::Python => {
                let mut python = Command::new(installed("python-1.85.1/bin/python"));
                python.arg(scripts().join("client.py"));
                python
            }
            Self::Node => node(&scripts().join("client.cjs")),
            Self::Go => Command::new(installed("go/bin/client")),
        };
        command.env("GRPC_XDS_BOOTSTRAP", bootstrap);
        // with it C-core reads `resource_errors` (gRFC A88)
        command.env("GRPC_EXPERIMENTAL_XDS_DATA_ERROR_HANDLING", "true");
        // with it grpc-go names metrics of endpoints as the others do (gRFC A85)
        command.env("GRPC_EXPERIMENTAL_XDS_ORCA_LRS_PROPAGATION", "true");
        command
    }
}

fn installed(path: &str) -> PathBuf {
    root().join(".tools/grpc-clients").join(path)
}

fn scripts() -> PathBuf {
    root().join("tests/src/grpc_clients")
}

/// Runs a script with the pinned packages.
pub fn node(script: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg(script).env("NODE_PATH", installed("node-1.14.1/node_modules"));
    command
}

/// A client that ends with this value.
pub struct Client {
    child: Child,
    input: ChildStdin,
    lines: mpsc::Receiver<String>,
}

impl Client {
    /// Starts a client with this bootstrap. Its log is next to it. `variables` are of its environment.
    ///
    /// # Errors
    /// If it is not installed, or its log cannot be written.
    pub fn start(language: Language, bootstrap: &Path, variables: &[(&str, &str)]) -> anyhow::Result<Self> {
        let log = File::create(bootstrap.with_extension(format!("{language:?}.log")))?;
        let mut command = language.command(bootstrap);
        command.envs(variables.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().with_context(|| format!("{language:?} is missing; run `make tools`"))?;
        let input = child.stdin.take().context("no standard input")?;
        let output = child.stdout.take().context("no standard output")?;
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Ok(Self { child, input, lines })
    }

    /// Makes calls to `xds:///target`, and counts each answer or error.
    ///
    /// # Errors
    /// If the client ends, or an answer is missing.
    pub fn call(&mut self, target: &str, count: u64) -> anyhow::Result<BTreeMap<String, u64>> {
        self.begin(target, count)?;
        let answers = self.answers()?;
        anyhow::ensure!(answers.values().sum::<u64>() == count, "{count} calls have the answers {answers:?}");
        Ok(answers)
    }

    /// Begins calls to `xds:///target`.
    ///
    /// # Errors
    /// If the client has ended.
    pub fn begin(&mut self, target: &str, count: u64) -> anyhow::Result<()> {
        Ok(writeln!(self.input, "xds:///{target} {count}")?)
    }

    /// Counts each answer or error of the calls that were begun.
    ///
    /// # Errors
    /// If the client ends, or gives no answer in time.
    pub fn answers(&mut self) -> anyhow::Result<BTreeMap<String, u64>> {
        let mut answers = BTreeMap::new();
        loop {
            let line =
                self.lines.recv_timeout(LONGEST).context("no answers; if the client is missing, run `make tools`")?;
            let Some((times, answer)) = line.split_once(' ') else { return Ok(answers) };
            answers.insert(answer.to_owned(), times.parse()?);
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// A gRPC server with a listener of xDS, which answers each call with its language. It ends with this value.
pub struct XdsServer(Child);

impl XdsServer {
    /// Starts a server at this address.
    ///
    /// # Errors
    /// If it is not installed, or its log cannot be written.
    pub fn start(language: Language, bootstrap: &Path, address: &str) -> anyhow::Result<Self> {
        let log = File::create(bootstrap.with_extension(format!("{language:?}-server.log")))?;
        let mut command = language.command(bootstrap);
        command.args(["serve", address]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Ok(Self(command.spawn().with_context(|| format!("{language:?} is missing; run `make tools`"))?))
    }
}

impl Drop for XdsServer {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

/// It may have ended already.
fn end(child: &mut Child) {
    let _gone = child.kill();
    let _reaped = child.wait();
}

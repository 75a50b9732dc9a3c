//! Which Envoy runs: the first usable one of the places where one may be.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use object::{Architecture, Object as _};
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::sync::Mutex;

use super::Error;

/// The Envoy that Chancery is built and tested against.
pub const ENVOY_VERSION: &str = "1.40.0";

/// The oldest major and minor version that knows all that Chancery sends.
const OLDEST: (u32, u32) = (1, 40);

/// Releases by the commit that they are made from, which Envoy's build writes into the program as its build id (the ELF note
/// `NT_GNU_BUILD_ID`), on every architecture. Reading it costs microseconds, asking the program some 40 ms of each start.
const RELEASES: [([u8; 20], &str); 1] = [(
    [
        0x9e, 0x55, 0x80, 0x93, 0x37, 0x39, 0x77, 0x5e, 0x8b, 0xce, 0x69, 0x6a, 0x57, 0xa2, 0xe1, 0xbc, 0x99, 0x36,
        0x8f, 0x23,
    ],
    ENVOY_VERSION,
)];

/// `envoy --version` answers in some 50 ms; a first read of its 107 MB from a slow disk may take seconds.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);

/// Bytes of `envoy --version` that are read: the line has about 100.
const VERSION_BYTES: u64 = 4096;

/// Where to look for Envoy. Everything is passed in: this crate reads no environment.
#[derive(Clone, Debug, Default)]
pub struct EnvoySearch {
    /// What the user named (`--envoy`, `CHANCERY_ENVOY`). Nothing else is looked at then.
    pub named: Option<PathBuf>,
    /// Files, in order: `envoy` next to the program, the project's `.tools/envoy/<version>/bin/envoy`.
    pub candidates: Vec<PathBuf>,
    /// The value of `PATH`: its absolute folders are searched in order for `envoy` then.
    pub path: Option<OsString>,
}

/// An Envoy that runs on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envoy {
    /// The program, absolute.
    pub path: PathBuf,
    /// Its version, for example `1.40.0`.
    pub version: String,
}

/// Finds Envoy for whoever asks, and remembers it. Cheap to clone; clones remember together.
#[derive(Clone, Debug, Default)]
pub struct EnvoyFinder {
    search: EnvoySearch,
    /// The one that was found, as long as its file is there.
    found: Arc<Mutex<Option<Envoy>>>,
}

impl EnvoyFinder {
    /// It will look there.
    pub fn new(search: EnvoySearch) -> Self {
        Self { search, found: Arc::default() }
    }

    /// The Envoy to start: looked for once, and again when it is gone or none was there. Who asks while it is looked for waits
    /// for the same answer.
    ///
    /// # Errors
    /// [`Error::NoEnvoy`] with every place, what was wrong with it, and how to get one.
    pub async fn find(&self) -> Result<Envoy, Error> {
        let mut known = self.found.lock().await;
        if let Some(envoy) = known.as_ref().filter(|envoy| envoy.path.is_file()) {
            return Ok(envoy.clone());
        }
        let found = find_envoy(&self.search).await?;
        *known = Some(found.clone());
        Ok(found)
    }
}

/// Finds the first Envoy that is new enough; runs `envoy --version` of each place until then, unless it is a known release.
async fn find_envoy(search: &EnvoySearch) -> Result<Envoy, Error> {
    let mut looked = Vec::new();
    for place in places(search) {
        match examine(&place).await {
            Ok(envoy) => return Ok(envoy),
            Err(reason) => looked.push(format!("{} {reason}", place.display())),
        }
    }
    if looked.is_empty() {
        looked.push("there is none on PATH".to_owned());
    }
    Err(Error::NoEnvoy { looked: looked.join("; ") })
}

/// Existing files only, but for what the user named.
fn places(search: &EnvoySearch) -> Vec<PathBuf> {
    if let Some(named) = &search.named {
        return vec![named.clone()];
    }
    let path = search.path.as_deref().unwrap_or(OsStr::new(""));
    // A relative folder is one of the current folder, which may be another user's.
    let on_path = std::env::split_paths(path).filter(|dir| dir.is_absolute()).map(|dir| dir.join("envoy"));
    search.candidates.iter().cloned().chain(on_path).filter(|place| place.is_file()).collect()
}

/// The Envoy at this place, or what is wrong with it.
async fn examine(place: &Path) -> Result<Envoy, String> {
    let found = std::fs::metadata(place).map_err(|error| format!("cannot be read: {error}"))?;
    if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
        return Err("is not a program".to_owned());
    }
    let path = std::path::absolute(place).map_err(|error| format!("cannot be used: {error}"))?;
    if let Some(version) = known_release(&path) {
        return Ok(Envoy { path, version: version.to_owned() });
    }
    let said = tokio::time::timeout(VERSION_TIMEOUT, ask_version(&path))
        .await
        .map_err(|_| "does not tell its version in time".to_owned())?
        .map_err(|error| format!("does not run: {error}"))?;
    let version = parse_version(&said).ok_or_else(|| "does not say which Envoy it is".to_owned())?;
    let numbers: Vec<u32> = version.split('.').filter_map(|number| number.parse().ok()).collect();
    match numbers.as_slice() {
        [major, minor, ..] if (*major, *minor) >= OLDEST => Ok(Envoy { path, version: version.to_owned() }),
        _ => Err(format!("is version {version}, older than {}.{}", OLDEST.0, OLDEST.1)),
    }
}

/// The version of a program that is one of [`RELEASES`].
fn known_release(path: &Path) -> Option<&'static str> {
    let file = object::ReadCache::new(File::open(path).ok()?);
    let program = object::File::parse(&file).ok()?;
    let runs = match program.architecture() {
        Architecture::X86_64 => cfg!(target_arch = "x86_64"),
        Architecture::Aarch64 => cfg!(target_arch = "aarch64"),
        _ => false,
    };
    let id = program.build_id().ok()?.filter(|_| runs)?;
    RELEASES.iter().find(|(commit, _)| commit == id).map(|(_, version)| *version)
}

async fn ask_version(path: &Path) -> std::io::Result<String> {
    let mut child = Command::new(path)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut said = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(VERSION_BYTES).read_to_end(&mut said).await?;
    }
    child.wait().await?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// `envoy  version: <commit>/1.40.0/Clean/RELEASE/BoringSSL`.
fn parse_version(said: &str) -> Option<&str> {
    let (_, rest) = said.split_once("version:")?;
    let version = rest.split('/').nth(1)?;
    let plain =
        !version.is_empty() && version.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-".contains(letter));
    plain.then_some(version)
}

#[cfg(test)]
mod tests;

//! Where the files of each proxy are: the folders below the state folder, and the sockets, whose paths must be short.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ir::socket::LONGEST_PATH;
use ir::{FleetName, Infra};
use xxhash_rust::xxh3::xxh3_64;

use super::Error;
use super::handover;
use super::process::search;
use super::token::{Token, random, try_random};

/// The longest name of a socket below the folder of sockets: `/` + 16 digits + the socket of an Envoy on its way out, with the
/// largest process number (proc(5), `pid_max`).
const SOCKET_TAIL: usize = 1 + 16 + "/drain.4194304".len();

/// The file of the state folder that names the folder of sockets where that is another one, and on the lines below it the state
/// folder itself: a copy of it must not lead to the same sockets.
const RECORD: &str = "sockets";

/// The state folder, ready for use.
#[derive(Clone, Debug)]
pub struct Layout {
    state: PathBuf,
    gateways: PathBuf,
    sockets: PathBuf,
    /// By fleet: the name of its folder and its token, as they were found or drawn. Clones share them.
    homes: Arc<Mutex<BTreeMap<FleetName, Home>>>,
}

/// The parts of a proxy's files that cannot be computed.
#[derive(Clone, Debug)]
struct Home {
    folder: String,
    token: Token,
}

impl Home {
    fn new() -> Self {
        let [a, b, c, d, e, f, g, h, ..] = random();
        Self { folder: format!("{:016x}", u64::from_be_bytes([a, b, c, d, e, f, g, h])), token: Token::new() }
    }
}

/// The files of one proxy. All are below folders of mode 0700.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyPaths {
    /// The proxy's folder: `<state>/gateways/<16 random hexadecimal digits>`. With 64 random bits an author of objects cannot name a
    /// socket below it: each try is a request through a proxy.
    pub dir: PathBuf,
    /// Envoy's bootstrap, JSON: next to the sockets, in the folder where Envoy is started.
    pub bootstrap: PathBuf,
    /// Where the xDS server listens for this proxy and for no other: the socket is the identity. At most
    /// [`LONGEST_PATH`] bytes, as all sockets here.
    pub xds_socket: PathBuf,
    /// Envoy's admin socket, under the name that Chancery gives it once it is there: Envoy knows its own folder as `/proc/self/cwd`, and a route could
    /// lead it to each name in there that is known.
    pub admin_socket: PathBuf,
    /// The name under which Envoy binds it.
    pub(crate) bound_admin_socket: PathBuf,
    /// The token that the proxy sends with each xDS call.
    pub token: Token,
    /// The file with the token, mode 0600: `token` in the proxy's folder.
    pub(crate) kept_token: PathBuf,
    /// The same next to the sockets, for Envoys that Chancery does not start.
    pub token_file: PathBuf,
    /// Envoy's own log (its standard error).
    pub log: PathBuf,
    /// Envoy's standard output: access logs that are written there.
    pub output: PathBuf,
    /// What the proxy is, as it was last wanted: see [`Self::last_wanted`].
    pub(crate) wanted: PathBuf,
    /// Which process runs: see [`super::process::Record`].
    pub(crate) record: PathBuf,
    /// The same of a successor that does not serve yet.
    pub(crate) next_record: PathBuf,
    /// The number of the memory that its Envoys share: see [`super::handover`].
    pub(crate) memory: PathBuf,
    /// The fleet's name, so that a folder can be told from its hash.
    pub(crate) owner: PathBuf,
    /// The folder of the two sockets: `dir`, or a shorter one.
    pub(crate) sockets: PathBuf,
}

impl Layout {
    /// Prepares the state folder. Where sockets below it would have too long a path, they live in a new folder below
    /// `runtime` (for example `XDG_RUNTIME_DIR`; the system's temporary folder if it is absent or too long as well). The
    /// file `sockets` in the state folder names that folder, so that a later process finds the same sockets; in a copy of
    /// the state folder it counts for nothing.
    ///
    /// # Errors
    /// [`Error::File`] if a folder cannot be made or used.
    pub fn open(state: &Path, runtime: Option<&Path>) -> Result<Self, Error> {
        let state = std::path::absolute(state).map_err(Error::file("use", state))?;
        let gateways = state.join("gateways");
        make_dir(&gateways)?;
        try_random().map_err(Error::file("draw a token for", &state))?;
        let sockets = if fits(&gateways) { gateways.clone() } else { short_dir(&state, runtime)? };
        remove_nameless(&gateways, &sockets);
        let homes = owned(&gateways).into_iter().filter(|(folder, fleet)| *folder != earlier_name(fleet));
        let home = |(folder, fleet): (String, FleetName)| {
            let token = Token::read(&gateways.join(&folder).join(TOKEN)).unwrap_or_else(Token::new);
            (fleet, Home { folder, token })
        };
        let homes = Arc::new(Mutex::new(homes.map(home).collect()));
        Ok(Self { state, gateways, sockets, homes })
    }

    /// Where Chancery itself answers those who ask about it: `admin.sock` in the state folder, or in the folder of sockets that a process
    /// has recorded there.
    pub fn own_socket(state: &Path) -> PathBuf {
        let inside = state.join("admin.sock");
        if inside.as_os_str().as_bytes().len() <= LONGEST_PATH {
            return inside;
        }
        recorded(state).map_or(inside, |folder| folder.join("admin.sock"))
    }

    /// The file with the token that [`Self::own_socket`] asks for, mode 0600. It stays, so that a full disk does not keep a later process from it.
    pub fn own_token(state: &Path) -> PathBuf {
        state.join("admin.token")
    }

    /// Reads the token of [`Self::own_token`], or draws one and writes it there.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be drawn or written.
    pub fn make_own_token(state: &Path) -> Result<Token, Error> {
        let file = Self::own_token(state);
        if let Some(token) = Token::read(&file) {
            return Ok(token);
        }
        try_random().map_err(Error::file("draw a token for", state))?;
        let token = Token::new();
        Self::keep_own_token(state, &token)?;
        Ok(token)
    }

    /// Writes the token of [`Self::own_token`] where it is not there any more.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be written.
    pub fn keep_own_token(state: &Path, token: &Token) -> Result<(), Error> {
        write_whole(&Self::own_token(state), token.as_str().as_bytes())
    }

    /// Where the Envoy that a running Chancery starts for a fleet answers, as [`Self::own_socket`].
    pub fn admin_socket(state: &Path, fleet: &FleetName) -> PathBuf {
        let gateways = gateways_of(state);
        let mut folders = owned(&gateways).into_iter().filter(|(_, owner)| owner == fleet).map(|(folder, _)| folder);
        let folder = folders.find(|folder| *folder != earlier_name(fleet)).unwrap_or_else(|| earlier_name(fleet));
        let sockets = if fits(&gateways) { gateways } else { recorded(state).unwrap_or(gateways) };
        let name = Token::read(&gateways_of(state).join(&folder).join(TOKEN)).map(|token| token.socket_name());
        sockets.join(folder).join(name.as_deref().unwrap_or(ADMIN_SOCKET))
    }

    /// Removes a folder of sockets outside the state folder at the end, unless something is left in it: a proxy that goes on, or a
    /// process that has the state folder by now.
    pub fn close(&self) {
        if self.sockets != self.gateways && std::fs::remove_dir(&self.sockets).is_ok() {
            let is_ours = recorded(&self.state).is_some_and(|dir| dir == self.sockets);
            let _absent = is_ours.then(|| std::fs::remove_file(self.state.join(RECORD)));
        }
    }

    /// The state folder, as an absolute path.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// The folders with all files and sockets of proxies, as absolute paths.
    pub fn folders(&self) -> [&Path; 2] {
        [&self.gateways, &self.sockets]
    }

    /// The files of a fleet's proxy; they need not exist. Always the same for the same fleet and state folder, once
    /// [`Self::prepare`] has made them.
    pub fn paths(&self, fleet: &FleetName) -> ProxyPaths {
        let home = self.home(fleet);
        self.paths_in(&home.folder, home.token)
    }

    /// The files of a fleet's proxy as a version of Chancery before this one named them, if they are there: by a name that can be
    /// computed. An Envoy that runs from there is replaced.
    pub(crate) fn earlier_paths(&self, fleet: &FleetName) -> Option<ProxyPaths> {
        let folder = earlier_name(fleet);
        let owner = std::fs::read_to_string(self.gateways.join(&folder).join(OWNER)).ok()?;
        (owner == fleet.as_str()).then(|| self.paths_in(&folder, self.home(fleet).token))
    }

    fn home(&self, fleet: &FleetName) -> Home {
        let mut homes = self.homes.lock().unwrap_or_else(PoisonError::into_inner);
        homes.entry(fleet.clone()).or_insert_with(Home::new).clone()
    }

    fn paths_in(&self, folder: &str, token: Token) -> ProxyPaths {
        let dir = self.gateways.join(folder);
        let sockets = self.sockets.join(folder);
        ProxyPaths {
            admin_socket: sockets.join(token.socket_name()),
            token,
            kept_token: dir.join(TOKEN),
            token_file: sockets.join(TOKEN),
            bootstrap: sockets.join(BOOTSTRAP),
            xds_socket: sockets.join("xds.sock"),
            bound_admin_socket: sockets.join(ADMIN_SOCKET),
            log: dir.join("envoy.log"),
            output: dir.join("output.log"),
            wanted: dir.join("wanted.json"),
            record: dir.join("envoy.pid"),
            next_record: dir.join("next.pid"),
            memory: dir.join("memory"),
            owner: dir.join(OWNER),
            sockets,
            dir,
        }
    }

    /// Makes the folders of a fleet's proxy, so that sockets can be bound there.
    ///
    /// # Errors
    /// [`Error::File`] if a folder or its files cannot be made; [`Error::Occupied`] if the folder is another fleet's.
    pub fn prepare(&self, fleet: &FleetName) -> Result<ProxyPaths, Error> {
        let paths = self.paths(fleet);
        make_dir(&paths.dir)?;
        make_dir(&paths.sockets)?;
        match std::fs::read_to_string(&paths.owner) {
            Ok(owner) if owner == fleet.as_str() => {}
            Ok(owner) if !owner.is_empty() => return Err(Error::Occupied { path: paths.dir, owner }),
            _ => write_whole(&paths.owner, fleet.as_str().as_bytes())?,
        }
        // No line break behind it: Envoy takes the file as it is.
        for file in [&paths.kept_token, &paths.token_file] {
            write_whole(file, paths.token.as_str().as_bytes())?;
        }
        Ok(paths)
    }

    /// Returns a fleet's proxy as it was when it was last wanted; none if that is not known.
    pub(crate) fn last_wanted(&self, fleet: &FleetName) -> Option<Infra> {
        let earlier = || self.earlier_paths(fleet)?.last_wanted();
        self.paths(fleet).last_wanted().or_else(earlier)
    }

    /// The fleets whose folders exist, sorted: those of an earlier process included.
    pub(crate) fn known(&self) -> Vec<FleetName> {
        let mut known: Vec<FleetName> = owned(&self.gateways).into_iter().map(|(_, fleet)| fleet).collect();
        known.sort();
        known.dedup();
        known
    }
}

impl ProxyPaths {
    /// Notes what the proxy is, for a later process that does not know it yet.
    pub(crate) fn remember(&self, infra: &Infra) -> Result<(), Error> {
        let text = serde_json::to_vec(infra).map_err(|error| Error::file("write", &self.wanted)(error.into()))?;
        write_whole(&self.wanted, &text)
    }

    /// What the proxy was when it was last wanted; none if that is not known.
    pub(crate) fn last_wanted(&self) -> Option<Infra> {
        serde_json::from_slice(&std::fs::read(&self.wanted).ok()?).ok()
    }

    /// Gives Envoy's admin socket the name that only Chancery knows, if Envoy has bound it.
    pub(crate) fn hide_admin_socket(&self) {
        let _absent = std::fs::rename(&self.bound_admin_socket, &self.admin_socket);
    }

    /// Removes the admin socket that an Envoy has left, which would answer nothing.
    pub(crate) fn remove_admin_socket(&self) {
        for name in [&self.bound_admin_socket, &self.admin_socket] {
            let _absent = std::fs::remove_file(name);
        }
    }

    /// Removes the files of this proxy, and its folders if nothing of others is in them: the xDS server may be listening
    /// there for the proxy's successor.
    pub(crate) fn remove(&self) {
        handover::forget(self);
        handover::remove_sockets(&self.sockets);
        let Self { wanted, record, next_record, bootstrap, log, output, kept_token, token_file, owner, .. } = self;
        self.remove_admin_socket();
        for file in [wanted, record, next_record, bootstrap, log, output, kept_token, token_file, owner] {
            let _absent = std::fs::remove_file(file);
        }
        for dir in [&self.sockets, &self.dir] {
            let _in_use = std::fs::remove_dir(dir);
        }
    }
}

/// Replaces a file in one step: a reader sees the old text or the new, also when this process dies half-way and when two
/// tasks write it at once. Mode 0600. A file that says so already is left alone, as there may be no room for another.
pub(crate) fn write_whole(path: &Path, text: &[u8]) -> Result<(), Error> {
    if std::fs::read(path).is_ok_and(|present| present == text) {
        return Ok(());
    }
    let failed = |reason| Error::file("write", path)(reason);
    let folder = path.parent().unwrap_or(Path::new("."));
    // its words name a file whose name is another each time
    let fresh = tempfile::Builder::new().prefix(FRESH).tempfile_in(folder);
    let mut fresh = fresh.map_err(|error| failed(error.kind().into()))?;
    fresh.write_all(text).map_err(failed)?;
    fresh.persist(path).map_err(|error| failed(error.error)).map(drop)
}

/// The first letters of a file that is being written.
const FRESH: &str = ".new-";

/// The file of a proxy's folder that names its fleet.
const OWNER: &str = "gateway";

/// The name of a proxy's bootstrap.
pub(crate) const BOOTSTRAP: &str = "bootstrap.json";

/// The name under which an Envoy binds its admin socket. Envoy is given it without its folder: the kernel shows to all users under which paths sockets were bound
/// (`/proc/net/unix`).
pub const ADMIN_SOCKET: &str = "admin.sock";

/// The file of a proxy's folder with its token.
const TOKEN: &str = "token";

/// The folder with the folders of proxies.
fn gateways_of(state: &Path) -> PathBuf {
    std::path::absolute(state).unwrap_or_else(|_| state.to_owned()).join("gateways")
}

/// The name that the folder of a fleet had before names were random.
fn earlier_name(fleet: &FleetName) -> String {
    format!("{:016x}", xxh3_64(fleet.as_str().as_bytes()))
}

/// The folders of proxies, with the fleet that each names; sorted by folder.
fn owned(gateways: &Path) -> Vec<(String, FleetName)> {
    let Ok(entries) = std::fs::read_dir(gateways) else { return Vec::new() };
    let folder = |entry: std::fs::DirEntry| {
        let owner = std::fs::read_to_string(entry.path().join(OWNER)).ok().filter(|owner| !owner.is_empty())?;
        Some((entry.file_name().into_string().ok()?, FleetName::from(owner)))
    };
    let mut found: Vec<_> = entries.filter_map(|entry| folder(entry.ok()?)).collect();
    found.sort();
    found
}

/// Removes the folders that a process made and died before it named their fleets: their names were drawn, so no process finds them again. What was left there
/// has no value, but a folder with anything else than files of Chancery's stays, and one from which a process runs.
fn remove_nameless(gateways: &Path, sockets: &Path) {
    let named: BTreeSet<String> = owned(gateways).into_iter().map(|(folder, _)| folder).collect();
    for place in BTreeSet::from([gateways, sockets]) {
        let names = std::fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let names = names.filter_map(|name| name.into_string().ok());
        for name in names.filter(|name| is_drawn(name) && !named.contains(name)) {
            let folder = place.join(&name);
            if search(&sockets.join(&name).join(BOOTSTRAP), &BTreeSet::new()).is_empty() {
                remove_left(&folder);
            }
        }
    }
}

/// Returns true if a folder may have this name because it was drawn.
fn is_drawn(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Files of a proxy's folder that are there before its fleet is named.
const FIRST_FILES: [&str; 6] = ["xds.sock", ADMIN_SOCKET, BOOTSTRAP, TOKEN, OWNER, "wanted.json"];

/// Removes a folder and the files in it, if all of them are such as are there before its fleet is named.
fn remove_left(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let files: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    let is_first = |name: &str| FIRST_FILES.contains(&name) || name.starts_with(FRESH);
    if files.iter().all(|name| name.to_str().is_some_and(is_first)) {
        files.iter().for_each(|name| drop(std::fs::remove_file(folder.join(name))));
        let _in_use = std::fs::remove_dir(folder);
    }
}

fn make_dir(dir: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(Error::file("make", dir))
}

fn fits(sockets: &Path) -> bool {
    sockets.as_os_str().as_bytes().len() + SOCKET_TAIL <= LONGEST_PATH
}

/// The recorded folder of sockets, or a new one. A name that nobody can guess and mode 0700 keep others' files out of it.
fn short_dir(state: &Path, runtime: Option<&Path>) -> Result<PathBuf, Error> {
    if let Some(dir) = recorded(state).filter(|dir| fits(dir) && is_ours(dir)) {
        return Ok(dir);
    }
    let temporary = std::env::temp_dir();
    let base = runtime.filter(|base| base.is_dir() && fits(&base.join("chancery-123456"))).unwrap_or(&temporary);
    let dir = tempfile::Builder::new()
        .prefix("chancery-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(base)
        .map_err(Error::file("make a folder for sockets in", base))?
        .keep();
    let owner = std::fs::canonicalize(state).map_err(Error::file("find", state))?;
    let text = [dir.as_os_str(), owner.as_os_str()].map(OsStrExt::as_bytes).join(&b'\n');
    write_whole(&state.join(RECORD), &text)?;
    Ok(dir)
}

/// The folder of sockets that is recorded for this very state folder.
fn recorded(state: &Path) -> Option<PathBuf> {
    let text = std::fs::read(state.join(RECORD)).ok()?;
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let (dir, owner) = (OsStr::from_bytes(text.get(..end)?), OsStr::from_bytes(text.get(end + 1..)?));
    (std::fs::canonicalize(state).ok()? == Path::new(owner)).then(|| PathBuf::from(dir))
}

/// A folder (no link), of this user, open to nobody else.
fn is_ours(dir: &Path) -> bool {
    std::fs::symlink_metadata(dir).is_ok_and(|found| {
        found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0
    })
}

#[cfg(test)]
mod tests;

//! A network of a test's own: the test runs once more as root of namespaces in which only it is.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd as _;
use std::process::Command;

use anyhow::Context as _;
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket};

/// Set in the process that runs inside.
const INSIDE: &str = "CHANCERY_TEST_NAMESPACE";

/// The number of loopback in a new network namespace, where it is the first interface.
const LOOPBACK: u32 = 1;

/// Runs a test of this program, which this is called from, in namespaces of its own: it is root there, and has all rights over
/// its network but those in `without` (capabilities(7), lower case without `cap_`). Loopback is up, and no port is taken.
///
/// True: this is inside, go on. False: this is outside, and the test has passed inside, or this machine does not allow such
/// namespaces, which standard error says.
///
/// # Errors
/// If the test failed inside; what it said is in the error.
pub fn enter(test: &str, without: &[&str]) -> anyhow::Result<bool> {
    if std::env::var_os(INSIDE).is_some() {
        set_loopback_up()?;
        return Ok(true);
    }
    let tried = inside(without, "true").output();
    let refused = match &tried {
        Ok(tried) if tried.status.success() => None,
        Ok(tried) => Some(String::from_utf8_lossy(&tried.stderr).trim().to_owned()),
        Err(error) => Some(format!("unshare and setpriv of util-linux: {error}")),
    };
    if let Some(refused) = refused {
        writeln!(std::io::stderr(), "{test}: not run, this machine allows no namespaces of one's own: {refused}")?;
        return Ok(false);
    }
    let program = std::env::current_exe()?;
    let ran = inside(without, program).args([test, "--exact", "--nocapture"]).env(INSIDE, "1").output()?;
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    anyhow::ensure!(ran.status.success() && said.contains("1 passed"), "inside the namespaces:\n{said}");
    Ok(false)
}

/// A program in new namespaces. Rights that are taken out of the bounding set are root's no more (capabilities(7)).
fn inside(without: &[&str], program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--", "setpriv"]);
    let rights = without.iter().map(|right| format!("-{right}")).collect::<Vec<_>>().join(",");
    if !rights.is_empty() {
        command.args(["--bounding-set", &rights, "--inh-caps", &rights]);
    }
    command.arg("--").arg(program);
    command
}

/// Gives loopback one more address. Only for a test that is inside: it would change the machine.
///
/// # Errors
/// If the kernel refuses.
pub fn add_address(address: Ipv4Addr) -> anyhow::Result<()> {
    const NEW_ADDRESS: u16 = 20;
    change_address(NEW_ADDRESS, address).with_context(|| format!("cannot add {address}"))
}

/// Takes it away again.
///
/// # Errors
/// If the kernel refuses.
pub fn remove_address(address: Ipv4Addr) -> anyhow::Result<()> {
    const DELETE_ADDRESS: u16 = 21;
    change_address(DELETE_ADDRESS, address).with_context(|| format!("cannot remove {address}"))
}

fn change_address(kind: u16, address: Ipv4Addr) -> anyhow::Result<()> {
    anyhow::ensure!(std::env::var_os(INSIDE).is_some(), "not in a network of its own");
    const WHOLE: u8 = 32;
    const LOCAL: u16 = 2;
    // `ifaddrmsg`: family, prefix, flags, scope, interface; then one attribute: length, type, value.
    let mut body = vec![2, WHOLE, 0, 0];
    body.extend(LOOPBACK.to_ne_bytes());
    body.extend(8_u16.to_ne_bytes());
    body.extend(LOCAL.to_ne_bytes());
    body.extend(address.octets());
    tell_kernel(kind, &body)
}

fn set_loopback_up() -> anyhow::Result<()> {
    const NEW_LINK: u16 = 16;
    const UP: u32 = 1;
    // `ifinfomsg`: family, padding, type; then the interface, its flags, and which of them to change.
    let mut body = vec![0; 4];
    for word in [LOOPBACK, UP, UP] {
        body.extend(word.to_ne_bytes());
    }
    tell_kernel(NEW_LINK, &body).context("cannot set loopback up")
}

/// One request over rtnetlink(7), and the kernel's word on it.
fn tell_kernel(kind: u16, body: &[u8]) -> anyhow::Result<()> {
    const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
    const HEADER: usize = 16;
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend(u32::try_from(HEADER + body.len())?.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    let kernel = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    sendto(kernel.as_raw_fd(), &message, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut answer = [0; 4096];
    let length = recv(kernel.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    // `nlmsgerr` begins with the error, negative, or zero.
    let error = answer.get(HEADER..HEADER + 4).filter(|_| length >= HEADER + 4).context("half an answer")?;
    match i32::from_ne_bytes(error.try_into()?) {
        0 => Ok(()),
        error => Err(std::io::Error::from_raw_os_error(-error).into()),
    }
}

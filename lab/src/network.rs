//! The network of the lab: an address for the node, routes for Services and load balancers, a pair of interfaces per pod, no way out.

use std::net::Ipv4Addr;
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use tokio::io::AsyncWriteExt as _;

/// The node's address.
pub(crate) const NODE: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);

/// The node's name.
pub(crate) const NODE_NAME: &str = "lab";

/// Makes it. The bridge has no ports: it holds the node's address and the routes over which packets to Services are first sent, so that
/// kube-proxy's rules see them. Each pod has a pair of interfaces of its own and a route to it.
pub(crate) async fn make() -> anyhow::Result<()> {
    let commands = format!(
        "link set lo up
link add kbr0 type bridge
addr add {NODE}/16 dev kbr0
link set kbr0 up
route add 10.96.0.0/16 dev kbr0 src {NODE}
route add 198.18.0.0/24 dev kbr0 src {NODE}
"
    );
    ip(None, &commands).await?;
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("having packets forwarded")
}

/// Connects the network of a process, which has nothing yet, and gives it its address.
pub(crate) async fn connect(address: Ipv4Addr, pid: u32) -> anyhow::Result<()> {
    let name = interface(address);
    let node = format!(
        "link add {name} type veth peer name eth0 netns {pid}
link set {name} up
route add {address}/32 dev {name} src {NODE}
"
    );
    ip(None, &node).await?;
    let pod = format!(
        "link set lo up
addr add {address}/32 dev eth0
link set eth0 up
route add {NODE}/32 dev eth0 scope link
route add default via {NODE} dev eth0
"
    );
    ip(Some(pid), &pod).await
}

/// Takes the pair away, whose other end may live on in a process that ends late.
pub(crate) async fn disconnect(address: Ipv4Addr) -> anyhow::Result<()> {
    ip(None, &format!("link del {}\n", interface(address))).await
}

/// The node's end: at most 15 bytes, one for each address.
fn interface(address: Ipv4Addr) -> String {
    format!("pod{:08x}", address.to_bits())
}

/// Commands of `ip`, one in a line, in the network of a process or in the node's.
async fn ip(pid: Option<u32>, commands: &str) -> anyhow::Result<()> {
    let mut command = match pid {
        None => tokio::process::Command::new("ip"),
        Some(pid) => {
            let mut command = tokio::process::Command::new("nsenter");
            command.args(["--target", &pid.to_string(), "--net", "--", "ip"]);
            command
        }
    };
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().context("starting ip; are the packages iproute2 and util-linux installed?")?;
    let mut input = child.stdin.take().context("ip has no input")?;
    input.write_all(commands.as_bytes()).await?;
    drop(input);
    let output = child.wait_with_output().await?;
    ensure!(output.status.success(), "ip: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

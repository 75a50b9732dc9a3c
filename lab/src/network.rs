//! The network of the lab: an address for the node, routes for Services and load balancers, a pair of interfaces per pod, no way out.

use std::net::Ipv4Addr;
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use tokio::io::AsyncWriteExt as _;

/// The node's address.
pub(crate) const NODE: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);

/// The node's name.
pub(crate) const NODE_NAME: &str = "lab";

/// What the node does with connections to Services that kube-proxy's rules let by. While kube-proxy writes a Service's rules again a packet in between
/// may find the map of its endpoints empty (a rule of before, judged when the map of before is no longer active), and goes on to an address that
/// nothing has. No real network answers such a packet, so clients send it again, and the second one meets the new rules. Here the bridge would say
/// after 3 s that there is no such host. Seen three times in 25,000 connections with 500 changes.
const UNANSWERED: &str = "
table ip lab {
    set asked {
        type ipv4_addr . inet_service . ipv4_addr . inet_service
        flags dynamic, timeout
        timeout 10s
        size 65536
    }
    chain unanswered {
        ip daddr != { 10.96.0.0/16, 198.18.0.0/24 } return
        tcp flags & (syn | ack) != syn return
        ip saddr . tcp sport . ip daddr . tcp dport != @asked add @asked { ip saddr . tcp sport . ip daddr . tcp dport } drop
        ip daddr 198.18.0.0/24 reject with icmp type host-unreachable
    }
    chain output {
        type filter hook output priority filter - 1; policy accept;
        jump unanswered
    }
    chain forward {
        type filter hook forward priority filter - 1; policy accept;
        jump unanswered
    }
}
";

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
    fed(tokio::process::Command::new("nft").args(["-f", "-"]), UNANSWERED).await?;
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
    fed(command.args(["-batch", "-"]), commands).await
}

/// Runs a program that takes commands.
async fn fed(program: &mut tokio::process::Command, commands: &str) -> anyhow::Result<()> {
    let name = program.as_std().get_program().to_owned();
    program.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let started = program.spawn();
    let mut child = started.with_context(|| {
        format!("starting {}; are the packages iproute2, util-linux and nftables installed?", name.display())
    })?;
    let mut input = child.stdin.take().context("a program has no input")?;
    input.write_all(commands.as_bytes()).await?;
    drop(input);
    let output = child.wait_with_output().await?;
    ensure!(output.status.success(), "{}: {}", name.display(), String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

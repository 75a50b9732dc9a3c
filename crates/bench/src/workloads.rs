//! Raw resources for workloads: one of many objects changes in a file, until its bytes are on the sockets of all workloads that it is for; CPU of the
//! change. Every workload has a client. And one workload gets another label, until it has what is for that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::ads::Client;
use crate::dataset::Edit;
use crate::figure::{Report, Samples, millis, say};
use crate::process::Chancery;

/// Workloads, by the label of their application; each object is for the workloads of one.
const APPLICATIONS: usize = 100;
const REPLICAS: usize = 10;

/// Objects.
const SIZES: [usize; 2] = [1_000, 10_000];

const WARM_UP: usize = 20;
const ROUNDS: usize = 200;

/// What follows a change (acknowledgements, conditions) is over after this time.
const QUIET: Duration = Duration::from_millis(20);

/// Prints the figures.
pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut all = Vec::new();
    for objects in SIZES {
        say(&format!("workloads n={objects}"));
        let Measured { mut latency, mut cpu, mut flips, resident } = runtime.block_on(changes(objects))?;
        let mut add = |figure, value, limit| report.figure("workloads", figure, objects, (millis(value), "ms"), limit);
        add("bytes_on_sockets_ms_p50", latency.percentile(50), Some(2.0));
        add("bytes_on_sockets_ms_p99", latency.percentile(99), None);
        add("cpu_ms_p50", cpu.percentile(50), None);
        add("label_flip_ms_p50", flips.percentile(50), Some(1.0));
        add("label_flip_ms_p99", flips.percentile(99), Some(5.0));
        report.figure("workloads", "resident_MB", objects, (resident as f64 / 1e6, "MB"), None);
        all.push(cpu.percentile(50).as_secs_f64());
    }
    if let [small, large] = all.as_slice() {
        report.figure("workloads", "cpu_ratio_10k_to_1k", 10_000, (large / small, "ratio"), Some(1.5));
    }
    Ok(())
}

struct Measured {
    /// From the change of an object to its bytes on all sockets.
    latency: Samples,
    cpu: Samples,
    /// From the change of a label to the bytes on the socket of the workload that has it: the limits are those of B2.
    flips: Samples,
    resident: u64,
}

async fn changes(objects: usize) -> anyhow::Result<Measured> {
    let (place, conf) = Chancery::place()?;
    std::fs::write(conf.join("pods.yaml"), pods())?;
    std::fs::write(conf.join(GUEST), guest("nobody"))?;
    std::fs::write(conf.join("for-guest.yaml"), listener("for-guest", "guest", 0))?;
    for number in 0..objects {
        std::fs::write(conf.join(file(number)), object(number, 0))?;
    }
    let mut chancery = Chancery::start(place, None)?;
    chancery.wait_ready()?;
    let sockets = sockets(&chancery.state()).await?;
    let mut clients = BTreeMap::new();
    for (workload, socket) in sockets {
        let mut client = Client::connect(&socket).await?;
        client.drain(QUIET).await?;
        clients.insert(workload, client);
    }
    let (mut latency, mut cpu) = (Samples::default(), Samples::default());
    for round in 0..WARM_UP + ROUNDS {
        let number = round * 7 % objects;
        let edit = Edit::prepare(&conf, &file(number), &object(number, round + 1))?;
        let before = chancery.cpu()?;
        let began = Instant::now();
        edit.rename()?;
        let mut last = began;
        for replica in 0..REPLICAS {
            let workload = workload(number % APPLICATIONS, replica);
            let client = clients.get_mut(&workload).ok_or_else(|| anyhow::anyhow!("no client of {workload}"))?;
            let received = client.next().await?;
            anyhow::ensure!(received.names == [name(number)], "{:?} came for {}", received.names, name(number));
            last = last.max(received.at);
        }
        tokio::time::sleep(QUIET).await;
        if round >= WARM_UP {
            latency.add(last - began);
            cpu.add(chancery.cpu()? - before);
        }
    }
    let guest = clients.get_mut("workload/default/guest").ok_or_else(|| anyhow::anyhow!("no client of the guest"))?;
    let (flips, resident) = (flips(&conf, guest).await?, chancery.resident()?);
    Ok(Measured { latency, cpu, flips, resident })
}

async fn flips(conf: &Path, client: &mut Client) -> anyhow::Result<Samples> {
    let mut flips = Samples::default();
    for round in 0..WARM_UP + ROUNDS {
        let edit = Edit::prepare(conf, GUEST, &guest("guest"))?;
        let began = Instant::now();
        edit.rename()?;
        let received = client.next().await?;
        anyhow::ensure!(received.names == ["for-guest"], "{:?} came for the guest", received.names);
        if round >= WARM_UP {
            flips.add(received.at - began);
        }
        client.drain(QUIET).await?;
        Edit::prepare(conf, GUEST, &guest("nobody"))?.rename()?;
        client.drain(QUIET).await?;
    }
    Ok(flips)
}

/// A workload by itself.
const GUEST: &str = "guest.yaml";

fn guest(label: &str) -> String {
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: guest, labels: {{app: {label}}}}}\n")
}

fn workload(application: usize, replica: usize) -> String {
    format!("workload/default/app{application}-{replica}")
}

fn pods() -> String {
    let all = (0..APPLICATIONS).flat_map(|application| (0..REPLICAS).map(move |replica| (application, replica)));
    let pods = all.map(|(application, replica)| {
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: app{application}-{replica}, labels: {{app: app{application}}}}}\n")
    });
    pods.collect::<Vec<_>>().join("---\n")
}

fn file(number: usize) -> String {
    format!("listener-{number:05}.yaml")
}

fn name(number: usize) -> String {
    format!("listener-{number}")
}

/// A listener for the workloads of an application.
fn object(number: usize, version: usize) -> String {
    listener(&name(number), &format!("app{}", number % APPLICATIONS), version)
}

fn listener(name: &str, label: &str, version: usize) -> String {
    format!(
        "apiVersion: bootes.io/v1
kind: Listener
metadata: {{name: {name}}}
spec:
  workloadSelector: {{labels: {{app: {label}}}}}
  config:
    name: {name}
    address: {{socket_address: {{address: 127.0.0.1, port_value: 10000}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.tcp_proxy
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: version-{version}
          cluster: local
"
    )
}

/// The socket of each workload, once all are there.
async fn sockets(state: &Path) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let began = Instant::now();
    loop {
        let folders = std::fs::read_dir(state.join("gateways")).into_iter().flatten().flatten();
        let found = folders.filter_map(|folder| {
            let (socket, fleet) = (folder.path().join("xds.sock"), folder.path().join("gateway"));
            let fleet = std::fs::read_to_string(fleet).ok().filter(|_| socket.exists())?;
            Some((fleet.trim().to_owned(), socket))
        });
        let found: BTreeMap<_, _> = found.collect();
        if found.len() == APPLICATIONS * REPLICAS + 1 {
            return Ok(found);
        }
        anyhow::ensure!(began.elapsed() < Duration::from_secs(60), "only {} sockets", found.len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

//! The control plane: etcd, kube-apiserver, kube-controller-manager and kube-proxy, in that order, as they are; then the node.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use nix::mount::{MsFlags, mount};
use tokio::task::JoinSet;

use crate::http::Get;
use crate::lifecycle::{READY, STEPS};
use crate::place::Place;
use crate::program::{self, Program, Ready, States};
use crate::{certificates, network, simlet};

/// Controllers that the lab needs. Not among them: node-lifecycle (there is one node, and it is well), and those of clouds.
const CONTROLLERS: [&str; 17] = [
    "deployment-controller",
    "replicaset-controller",
    "daemonset-controller",
    "statefulset-controller",
    "job-controller",
    "cronjob-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "horizontal-pod-autoscaler-controller",
    "disruption-controller",
    "pod-garbage-collector-controller",
    "clusterrole-aggregation-controller",
];

/// Who may come with a token: the operator, and each program.
const USERS: [(&str, &str, &str); 4] = [
    ("admin", "admin", "system:masters"),
    ("kube-controller-manager", "system:kube-controller-manager", ""),
    ("kube-proxy", "system:kube-proxy", ""),
    // it is kubelet, scheduler and load balancer in one
    ("simlet", "lab:simlet", "system:masters"),
];

/// What the lab keeps in memory: etcd's data, what containers and volumes hold. A bound for mistakes, far above what tests write.
const MEMORY: &str = "size=8g";

/// Starts everything, and keeps it running.
pub(crate) fn run(place: Place) -> anyhow::Result<ExitCode> {
    let format = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_target(false);
    format.with_env_filter("info,kube_client=off,tower=warn,hyper=warn").init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("starting the runtime")?.block_on(bring_up(place))
}

async fn bring_up(place: Place) -> anyhow::Result<ExitCode> {
    let mut steps = Steps { place: place.clone(), began: Instant::now(), last: Instant::now() };
    network::make().await?;
    std::fs::create_dir_all(place.inside(""))?;
    mount(Some("tmpfs"), &place.inside(""), Some("tmpfs"), MsFlags::empty(), Some(MEMORY))
        .context("mounting the memory")?;
    certificates::write(&place.inside("pki"))?;
    write_users(&place)?;
    steps.done("namespaces, certificates")?;

    let states = States::new(&place);
    let mut started = Vec::new();
    for program in [etcd(&place), api_server(&place)?] {
        let name = program.name;
        started.push(program::start(&place, &states, program).await?);
        steps.done(name)?;
    }
    let client = client(&place).await?;
    let mut tasks = JoinSet::new();
    tasks.spawn(simlet::start(place.clone(), client.clone()).await?);
    steps.done("node")?;
    // they know nothing of each other
    let controllers = program::start(&place, &states, controller_manager(&place));
    let (controllers, proxy) = tokio::try_join!(controllers, program::start(&place, &states, proxy(&place)?))?;
    started.extend([controllers, proxy]);
    steps.done("kube-controller-manager, kube-proxy")?;
    until_default_account(&client).await?;
    steps.ready()?;
    for started in started {
        let (place, states) = (place.clone(), states.clone());
        tasks.spawn(async move { program::watch(place, states, started).await });
    }
    // none of them ends by itself
    let ended = tasks.join_next().await.context("nothing runs")?;
    anyhow::bail!("a task ended: {ended:?}")
}

/// Tells whoever waits for the lab how far it is.
struct Steps {
    place: Place,
    began: Instant,
    last: Instant,
}

impl Steps {
    fn done(&mut self, step: &str) -> anyhow::Result<()> {
        let took = std::mem::replace(&mut self.last, Instant::now()).elapsed();
        self.tell(&format!("{step}: {:.1} s", took.as_secs_f64()))
    }

    fn ready(&self) -> anyhow::Result<()> {
        self.tell(&format!("{READY} after {:.1} s", self.began.elapsed().as_secs_f64()))
    }

    fn tell(&self, line: &str) -> anyhow::Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(self.place.file(STEPS))?;
        Ok(file.write_all(format!("{line}\n").as_bytes())?)
    }
}

fn etcd(place: &Place) -> Program {
    let arguments = [
        format!("--data-dir={}", place.inside("etcd").display()),
        "--unsafe-no-fsync".to_owned(),
        "--listen-client-urls=http://127.0.0.1:2379".to_owned(),
        "--advertise-client-urls=http://127.0.0.1:2379".to_owned(),
        "--listen-peer-urls=http://127.0.0.1:2380".to_owned(),
        "--initial-advertise-peer-urls=http://127.0.0.1:2380".to_owned(),
        "--initial-cluster=default=http://127.0.0.1:2380".to_owned(),
    ];
    Program { name: "etcd", arguments: arguments.into(), ready: Ready::Connects(([127, 0, 0, 1], 2379).into()) }
}

/// What is written down of who asked for what: accounts of Pods, but not those of the controllers.
const AUDIT: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, userGroups: ['system:serviceaccounts:kube-system']}
- {level: Metadata, userGroups: ['system:serviceaccounts']}
- {level: None}
";

fn api_server(place: &Place) -> anyhow::Result<Program> {
    let policy = place.inside("audit.yaml");
    std::fs::write(&policy, AUDIT)?;
    let pki = place.inside("pki");
    let (pki, node, tokens) = (pki.display(), network::NODE, place.inside("tokens.csv"));
    let arguments = [
        "--etcd-servers=http://127.0.0.1:2379".to_owned(),
        format!("--advertise-address={node}"),
        "--bind-address=0.0.0.0".to_owned(),
        "--secure-port=6443".to_owned(),
        format!("--tls-cert-file={pki}/apiserver.crt"),
        format!("--tls-private-key-file={pki}/apiserver.key"),
        format!("--cert-dir={pki}"),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        format!("--token-auth-file={}", tokens.display()),
        format!("--service-account-key-file={pki}/sa.pub"),
        format!("--service-account-signing-key-file={pki}/sa.key"),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--allow-privileged".to_owned(),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--endpoint-reconciler-type=lease".to_owned(),
        // it taints a new node until a controller that the lab does without finds it well, and a DaemonSet would wait for that
        "--disable-admission-plugins=TaintNodesByCondition".to_owned(),
        // as 1.37 has it without being asked
        "--feature-gates=ClusterTrustBundle=true".to_owned(),
        "--runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true".to_owned(),
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", place.file("log/audit.log").display()),
        "--audit-log-maxsize=100".to_owned(),
        "--audit-log-maxbackup=1".to_owned(),
    ];
    Ok(Program { name: "kube-apiserver", arguments: arguments.into(), ready: answers(true, 6443, "/readyz") })
}

fn controller_manager(place: &Place) -> Program {
    let (pki, config) = (place.inside("pki"), kubeconfig(place, "kube-controller-manager"));
    let (pki, config) = (pki.display(), config.display());
    let arguments = [
        format!("--kubeconfig={config}"),
        format!("--authentication-kubeconfig={config}"),
        format!("--authorization-kubeconfig={config}"),
        format!("--controllers={}", CONTROLLERS.join(",")),
        "--leader-elect=false".to_owned(),
        "--use-service-account-credentials".to_owned(),
        format!("--service-account-private-key-file={pki}/sa.key"),
        format!("--root-ca-file={pki}/ca.crt"),
        format!("--cert-dir={pki}/controller-manager"),
        "--bind-address=127.0.0.1".to_owned(),
    ];
    let ready = answers(true, 10257, "/healthz");
    Program { name: "kube-controller-manager", arguments: arguments.into(), ready }
}

fn proxy(place: &Place) -> anyhow::Result<Program> {
    let config = place.inside("kube-proxy.yaml");
    let text = format!(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
hostnameOverride: {}
clusterCIDR: 10.244.0.0/16
clientConnection: {{kubeconfig: {}}}
# the limits of the machine's connection table cannot be written in a network of its own
conntrack: {{maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}}
nftables: {{minSyncPeriod: 100ms}}
",
        network::NODE_NAME,
        kubeconfig(place, "kube-proxy").display()
    );
    std::fs::write(&config, text)?;
    let arguments = vec![format!("--config={}", config.display())];
    Ok(Program { name: "kube-proxy", arguments, ready: answers(false, 10256, "/healthz") })
}

fn answers(tls: bool, port: u16, path: &str) -> Ready {
    let address = ([127, 0, 0, 1], port).into();
    Ready::Answers(Get { tls, address, path: path.to_owned(), host: None, headers: Vec::new() })
}

/// Tokens for everybody, and a kubeconfig with each.
fn write_users(place: &Place) -> anyhow::Result<()> {
    let mut all = String::new();
    for (name, user, group) in USERS {
        let key = rcgen::KeyPair::generate()?;
        let token =
            key.public_key_raw().iter().take(32).fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        writeln!(all, "{token},{user},{user},\"{group}\"")?;
        let text = format!(
            "apiVersion: v1
kind: Config
current-context: lab
clusters: [{{name: lab, cluster: {{server: \"https://{}:6443\", certificate-authority: {}}}}}]
contexts: [{{name: lab, context: {{cluster: lab, user: {name}}}}}]
users: [{{name: {name}, user: {{token: {token}}}}}]
",
            network::NODE,
            place.inside("pki/ca.crt").display()
        );
        certificates::private(&kubeconfig(place, name), &text)?;
    }
    certificates::private(&place.inside("tokens.csv"), &all)
}

/// The operator's is `kubeconfig`.
fn kubeconfig(place: &Place, user: &str) -> PathBuf {
    if user == "admin" { place.inside("kubeconfig") } else { place.inside(&format!("{user}.kubeconfig")) }
}

async fn client(place: &Place) -> anyhow::Result<kube::Client> {
    let read = Kubeconfig::read_from(kubeconfig(place, "simlet"))?;
    let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}

/// Until pods can be made in the namespace `default`: they need its ServiceAccount, and their token volume the authority's certificate.
async fn until_default_account(client: &kube::Client) -> anyhow::Result<()> {
    const ASK: Duration = Duration::from_millis(100);
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let certificates: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    while accounts.get_opt("default").await?.is_none() || certificates.get_opt("kube-root-ca.crt").await?.is_none() {
        tokio::time::sleep(ASK).await;
    }
    Ok(())
}

//! The API server: as much of it as whoever only lists and watches asks for, over TLS, with objects that are made while they are sent.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::child;

/// The first word of the process's command line.
pub(crate) const VERB: &str = "--kubernetes-server";

/// So many Secrets of one namespace are read together.
pub(crate) const TOGETHER: usize = 40;

/// How many of each there are.
#[derive(Clone, Copy)]
struct Numbers {
    routes: usize,
    secrets: usize,
    apart: usize,
}

/// What shall happen: events of a kind, and how many; counted, so that each happens once.
type Happens = (usize, String, usize);

/// Serves until its standard input ends.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let [folder, routes, secrets, apart] = arguments else { anyhow::bail!("{VERB} FOLDER ROUTES SECRETS APART") };
    child::raise_file_limit()?;
    let numbers = Numbers { routes: routes.parse()?, secrets: secrets.parse()?, apart: apart.parse()? };
    let acceptor = acceptor(&PathBuf::from(folder))?;
    let (happens, happened) = watch::channel((0, String::new(), 0));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    runtime.spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, happened) = (acceptor.clone(), happened.clone());
            // Whoever asks may go at any time.
            tokio::spawn(async move { drop(answer(acceptor, socket, numbers, happened).await) });
        }
    });
    for line in std::io::stdin().lines() {
        let line = line?;
        let (kind, count) = line.split_once(' ').context("KIND COUNT")?;
        let count = count.parse()?;
        happens.send_modify(|last| *last = (last.0 + 1, kind.to_owned(), count));
    }
    Ok(())
}

fn acceptor(folder: &Path) -> anyhow::Result<TlsAcceptor> {
    let certificate = CertificateDer::from_pem_file(folder.join("server.pem"))?;
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key"))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Answers one request, and ends.
async fn answer(
    acceptor: TlsAcceptor,
    socket: TcpStream,
    numbers: Numbers,
    mut happened: watch::Receiver<Happens>,
) -> anyhow::Result<()> {
    let mut stream = BufReader::new(acceptor.accept(socket).await?);
    let mut request = String::new();
    stream.read_line(&mut request).await?;
    let mut header = String::new();
    while stream.read_line(&mut header).await? > 2 {
        header.clear();
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n").await?;
    if !path.contains('?') {
        stream.write_all(kinds(path).as_bytes()).await?;
        stream.flush().await?;
        return Ok(stream.shutdown().await?);
    }
    let plural = path.split('?').next().and_then(|path| path.rsplit('/').next()).unwrap_or_default().to_owned();
    let mut number = 0;
    happened.borrow_and_update();
    for part in list(&plural, path, numbers) {
        stream.write_all(part.as_bytes()).await?;
    }
    stream.flush().await?;
    loop {
        happened.changed().await?;
        let (round, kind, count) = happened.borrow_and_update().clone();
        if kind != plural {
            continue;
        }
        for _ in 0..count {
            number += 1;
            stream.write_all(event(&plural, "MODIFIED", 0, (1_000_000 + number, "")).as_bytes()).await?;
        }
        number += 1;
        let mark = format!("\"mark\":\"{round}\"");
        stream.write_all(event(&plural, "MODIFIED", 1, (1_000_000 + number, &mark)).as_bytes()).await?;
        stream.flush().await?;
    }
}

/// Every kind that anybody could ask for, in each group.
fn kinds(path: &str) -> String {
    let group = path.split('/').nth(2).filter(|_| path.starts_with("/apis/")).unwrap_or_default();
    let of_group = api::Kind::ALL.iter().filter(|kind| kind.group() == group);
    let names: Vec<String> = of_group.map(|kind| format!("{{\"name\":\"{}\"}}", kind.plural())).collect();
    format!("{{\"resources\":[{}]}}", names.join(","))
}

/// The objects of a list, and its end.
fn list(plural: &str, path: &str, numbers: Numbers) -> Box<dyn Iterator<Item = String> + Send> {
    let Numbers { routes, secrets, apart } = numbers;
    let name = path.split("fieldSelector=metadata.name%3D").nth(1).and_then(|rest| rest.split('&').next());
    let objects: Box<dyn Iterator<Item = String> + Send> = match (plural, name) {
        ("httproutes", _) => Box::new((0..routes).map(|index| event("httproutes", "ADDED", index, (index + 1, "")))),
        ("gateways", _) => Box::new(std::iter::once(gateway(secrets, apart))),
        ("secrets", Some(_)) => {
            let namespace =
                path.split("/namespaces/").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
            Box::new(std::iter::once(secret("ADDED", (namespace, name.unwrap_or_default()), (1, ""))))
        }
        ("secrets", None) => Box::new((1..secrets).map(|index| event("secrets", "ADDED", index, (index, "")))),
        _ => Box::new(std::iter::empty()),
    };
    let end = "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"1000000\",\"annotations\":\
               {\"k8s.io/initial-events-end\":\"true\"}}}}\n";
    Box::new(objects.chain(std::iter::once(end.to_owned())))
}

/// An event of object number `index`, in a version, with further labels. Number 0 of the Secrets is one that nobody names.
fn event(plural: &str, what: &str, index: usize, (version, labels): (usize, &str)) -> String {
    match plural {
        "secrets" => secret(what, ("certs", &format!("s{index}")), (version, labels)),
        _ => route(what, index, (version, labels)),
    }
}

/// A route as an API server gives it, some 2.5 kB.
fn route(what: &str, index: usize, (version, labels): (usize, &str)) -> String {
    let condition = |name: &str| {
        format!(
            "{{\"type\":\"{name}\",\"status\":\"True\",\"reason\":\"{name}\",\"message\":\"\",\"observedGeneration\":1,\
             \"lastTransitionTime\":\"2026-11-21T10:04:00Z\"}}"
        )
    };
    format!(
        "{{\"type\":\"{what}\",\"object\":{{\"apiVersion\":\"gateway.networking.k8s.io/v1\",\"kind\":\"HTTPRoute\",\"metadata\":{{\"annotations\":\
         {{\"kubectl.kubernetes.io/last-applied-configuration\":\"{{\\\"apiVersion\\\":\\\"gateway.networking.k8s.io/v1\\\",\\\"kind\\\":\
         \\\"HTTPRoute\\\"}}\"}},\"creationTimestamp\":\"2026-11-21T10:04:00Z\",\"generation\":1,\"labels\":{{{labels}}},\"managedFields\":[{}],\
         \"name\":\"route-{index}\",\"namespace\":\"default\",\"resourceVersion\":\"{version}\",\"uid\":\"0f5d8a52-0000-0000-0000-{index:012}\"}},\
         \"spec\":{{\"hostnames\":[\"host-{}.example.com\"],\"parentRefs\":[{{\"group\":\"gateway.networking.k8s.io\",\"kind\":\"Gateway\",\
         \"name\":\"edge\"}}],\"rules\":[{{\"backendRefs\":[{{\"group\":\"\",\"kind\":\"Service\",\"name\":\"service-{index}\",\"port\":80,\
         \"weight\":1}}],\"filters\":[{{\"type\":\"ResponseHeaderModifier\",\"responseHeaderModifier\":{{\"set\":[{{\"name\":\"x-value\",\
         \"value\":\"first\"}}]}}}}],\"matches\":[{{\"path\":{{\"type\":\"PathPrefix\",\"value\":\"/path-{index}\"}}}}]}}]}},\"status\":\
         {{\"parents\":[{{\"conditions\":[{},{}],\"controllerName\":\"example.org/ours\",\"parentRef\":{{\"name\":\"edge\"}},\"n\":{version}}}]}}}}}}\n",
        managed_fields(),
        index / 10,
        condition("Accepted"),
        condition("ResolvedRefs"),
    )
}

/// What `kubectl apply` and a status writer leave behind.
fn managed_fields() -> String {
    let mut all = Vec::new();
    for manager in ["kubectl", "controller"] {
        let mut fields = String::new();
        for field in ["hostnames", "parentRefs", "rules", "filters", "matches", "conditions"] {
            let _ = write!(fields, "\"f:{field}\":{{\".\":{{}},\"f:name\":{{}}}},");
        }
        all.push(format!(
            "{{\"apiVersion\":\"gateway.networking.k8s.io/v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{{\"f:spec\":{{{}}}}},\"manager\":\
             \"{manager}\",\"operation\":\"Update\",\"time\":\"2026-11-21T10:04:00Z\"}}",
            fields.trim_end_matches(',')
        ));
    }
    all.join(",")
}

/// A Secret with 3 kB.
fn secret(what: &str, (namespace, name): (&str, &str), (version, labels): (usize, &str)) -> String {
    format!(
        "{{\"type\":\"{what}\",\"object\":{{\"kind\":\"Secret\",\"apiVersion\":\"v1\",\"metadata\":{{\"name\":\"{name}\",\"namespace\":\
         \"{namespace}\",\"resourceVersion\":\"{version}\",\"labels\":{{{labels}}}}},\"data\":{{\"tls.crt\":\"{}\",\"tls.key\":\"{}\"}},\
         \"type\":\"kubernetes.io/tls\"}}}}\n",
        "QUJD".repeat(500),
        "QUJD".repeat(250),
    )
}

/// A Gateway that names all Secrets but number 0.
fn gateway(secrets: usize, apart: usize) -> String {
    let together = (1..secrets).map(|index| format!("{{\"name\":\"s{index}\",\"namespace\":\"certs\"}}"));
    let apart = (0..apart).map(|index| format!("{{\"name\":\"s\",\"namespace\":\"n{index}\"}}"));
    let all: Vec<String> = together.chain(apart).collect();
    let mut listeners = String::from("{\"name\":\"plain\",\"port\":80,\"protocol\":\"HTTP\"}");
    for (index, references) in all.chunks(60).enumerate() {
        let _ = write!(
            listeners,
            ",{{\"name\":\"l{index}\",\"port\":{},\"protocol\":\"HTTPS\",\"tls\":{{\"certificateRefs\":[{}]}}}}",
            index + 443,
            references.join(",")
        );
    }
    format!(
        "{{\"type\":\"ADDED\",\"object\":{{\"metadata\":{{\"name\":\"edge\",\"namespace\":\"default\",\"resourceVersion\":\"1\"}},\"spec\":\
         {{\"gatewayClassName\":\"ours\",\"listeners\":[{listeners}]}}}}}}\n"
    )
}

//! Hostile clients of the xDS port: a real `chancery run` with TLS and a real Envoy that goes on being served.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, setsockopt, socket, sockopt};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;
use tests::backend::Backend;
use tests::certificate::{Pair, authority, issued};
use tests::http2::{PREFACE, frame};
use tests::objects::{documents, gateway, route, service};
use tests::ports::free_ports;
use tests::running::Running;
use tests::{client, wait};

/// Duration of a flood, and the clients that take part.
const FLOOD: Duration = Duration::from_secs(5);
const FLOODERS: usize = 4;

/// Connections on which nothing is read: without a bound the answers of each took 11 to 18 MB.
const UNREAD: usize = 16;

/// Memory that may be in use after an attack beyond what was before it, in bytes.
const MOST_KEPT: u64 = 48 << 20;

const CDS: &[u8] = b"type.googleapis.com/envoy.config.cluster.v3.Cluster";
const ADS: &[u8] = b"/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// The headers of a discovery stream.
fn request(stream: u32) -> Vec<u8> {
    let path = [&[0x83, 0x86, 0x04, u8::try_from(ADS.len()).unwrap()], ADS].concat();
    frame(1, 4, stream, &[&*path, &[0x0f, 0x10, 16], b"application/grpc"].concat())
}

/// A field of a message.
fn field(number: u8, text: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(text.len()).unwrap()], text].concat()
}

/// The first message of a stream: it asks for all clusters.
fn subscription(stream: u32) -> Vec<u8> {
    let node = [field(1, b"attacker"), field(2, b"default/edge")].concat();
    let message = [field(1, &node), field(2, CDS)].concat();
    let head = u32::try_from(message.len()).unwrap().to_be_bytes();
    frame(0, 0, stream, &[&[0], &head[..], &message].concat())
}

/// A Chancery with an Envoy, and a TLS address of xDS.
struct Stage {
    running: Running,
    xds: u16,
    http: u16,
    health: u16,
    authority: Pair,
    _backend: Backend,
    _files: TempDir,
}

impl Stage {
    fn start(arguments: &[&str]) -> Self {
        let [http, xds, health] = free_ports().unwrap();
        let backend = Backend::start("one").unwrap();
        let files = tempfile::tempdir().unwrap();
        let authority = authority("xds").unwrap();
        let server = issued("chancery.example", &authority).unwrap();
        let file = |name: &str, text: &str| -> PathBuf {
            let path = files.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let paths = [
            ("--xds-tls-cert", file("server.crt", &server.certificate)),
            ("--xds-tls-key", file("server.key", &server.key)),
            ("--xds-client-ca", file("ca.crt", &authority.certificate)),
        ];
        let mut running = Running::prepare().unwrap().with(arguments);
        for (option, path) in &paths {
            running = running.with(&[option, path.to_str().unwrap()]);
        }
        let at = |port: u16| format!("127.0.0.1:{port}");
        running = running.with(&["--xds-listen", &at(xds), "--health-listen", &at(health)]);
        running.write("gateway.yaml", &documents([&*gateway(http), &service("one", backend.port)])).unwrap();
        running.write("route.yaml", &route("first", &[("/first", "one")])).unwrap();
        running.start().unwrap();
        Self { running, xds, http, health, authority, _backend: backend, _files: files }
    }

    fn config(&self, name: &str) -> Arc<ClientConfig> {
        let pair = issued(name, &self.authority).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.certificate.as_bytes()).unwrap()).unwrap();
        let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = builder.with_root_certificates(roots).with_client_auth_cert(chain, key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }

    /// A connection over TLS, from an address of this machine.
    fn connect(&self, config: &Arc<ClientConfig>, from: u8) -> std::io::Result<Tls> {
        Self::begin(config, self.tcp(from)?)
    }

    /// TLS on a connection.
    fn begin(config: &Arc<ClientConfig>, tcp: TcpStream) -> std::io::Result<Tls> {
        tcp.set_read_timeout(Some(Duration::from_secs(30)))?;
        tcp.set_write_timeout(Some(Duration::from_secs(30)))?;
        let name = ServerName::try_from("chancery.example").unwrap();
        let connection = ClientConnection::new(Arc::clone(config), name).map_err(std::io::Error::other)?;
        Ok(StreamOwned::new(connection, tcp))
    }

    fn tcp(&self, from: u8) -> std::io::Result<TcpStream> {
        self.tcp_with_room(from, None)
    }

    /// A connection of a client that keeps so many bytes before it reads them.
    fn tcp_with_room(&self, from: u8, room: Option<usize>) -> std::io::Result<TcpStream> {
        let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
        if let Some(room) = room {
            setsockopt(&socket, sockopt::RcvBuf, &room)?;
        }
        bind(std::os::fd::AsRawFd::as_raw_fd(&socket), &SockaddrIn::new(127, 0, 0, from, 0))?;
        connect(std::os::fd::AsRawFd::as_raw_fd(&socket), &SockaddrIn::new(127, 0, 0, 1, self.xds))?;
        Ok(TcpStream::from(socket))
    }

    /// Returns true if a client is sent the clusters of its Gateway.
    fn is_served(&self, config: &Arc<ClientConfig>) -> bool {
        let ask = || -> std::io::Result<bool> {
            let mut tls = self.connect(config, 1)?;
            tls.write_all(&[PREFACE, &request(1), &subscription(1)].concat())?;
            loop {
                let mut head = [0; 9];
                tls.read_exact(&mut head)?;
                let length = usize::from(head[1]) << 8 | usize::from(head[2]);
                tls.read_exact(&mut vec![0; length])?;
                if head[3] == 0 && length > 0 {
                    return Ok(true);
                }
            }
        };
        ask().unwrap_or(false)
    }

    /// Resident memory in bytes.
    fn memory(&self) -> u64 {
        self.running.memory("VmRSS").unwrap()
    }

    /// Waits until the memory is back to what it was.
    fn until_given_back(&self, before: u64) {
        let mut now = 0;
        let back = wait::until("the memory to be given back", || {
            now = self.memory();
            (now <= before + MOST_KEPT).then_some(())
        });
        assert!(back.is_ok(), "{before} bytes before the attack, {now} bytes long after it");
    }

    /// Returns how often clients were refused for this reason.
    fn refused(&self, reason: &str) -> u64 {
        let metrics = client::get(self.health, "127.0.0.1", "/metrics").unwrap().body;
        let series = format!("chancery_xds_refusals_total{{reason=\"{reason}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&*series)?.parse().ok()).unwrap_or_default()
    }

    /// An edit reaches the Envoy.
    fn edit(&self, name: &str) {
        self.running.write(&format!("{name}.yaml"), &route(name, &[(&format!("/{name}"), "one")])).unwrap();
        wait::until("the edit to be served", || {
            client::get(self.http, "a.example", &format!("/{name}")).ok().filter(|answer| answer.status == 200)
        })
        .unwrap();
    }
}

#[test]
fn connections_that_end_badly_leave_nothing_behind() {
    let stage = Stage::start(&[]);
    let config = stage.config("edge.default");
    let streams = || (0..1_000).map(|n| 2 * n + 1);
    let requests: Vec<u8> = PREFACE.iter().copied().chain(streams().flat_map(request)).collect();
    let overflow = |stream: u32| frame(8, 0, stream, &0x7fff_ffff_u32.to_be_bytes());
    let resets: Vec<u8> = PREFACE
        .iter()
        .copied()
        .chain((0..1_100).map(|n| 2 * n + 1).flat_map(|stream| [request(stream), overflow(stream)].concat()))
        .collect();
    let endings =
        [[&*requests, &frame(0, 0, 0, &[0])].concat(), [&*requests, &frame(7, 0, 0, &[0; 8])].concat(), resets];
    let attack = |connections: usize| {
        for said in endings.iter().cycle().take(connections) {
            let mut tls = stage.connect(&config, 2).unwrap();
            let _cut_off = tls.write_all(said);
            // it may be closed already
            let _half = tls.sock.shutdown(Shutdown::Write);
            let _end = tls.read_to_end(&mut Vec::new());
        }
    };
    attack(6);
    let before = stage.memory();
    attack(90);
    stage.until_given_back(before);
    stage.edit("after");
}

#[test]
fn silent_connections_keep_no_proxy_out() {
    let stage = Stage::start(&["--xds-max-connections", "128", "--xds-max-share", "16"]);
    let config = stage.config("edge.default");
    let before = stage.memory();
    let mut held = Vec::new();
    for sent in [&b""[..], &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]] {
        for from in 2..6 {
            for _ in 0..100 {
                let mut tcp = stage.tcp(from).unwrap();
                let _refused = tcp.write_all(sent);
                held.push(tcp);
            }
        }
        wait::until("a proxy to be served", || stage.is_served(&config).then_some(())).unwrap();
        stage.edit(&format!("meanwhile{}", sent.len()));
    }
    assert!(stage.refused("share") > 0);
    let log = stage.running.log();
    assert!(log.contains("has its share; a connection is refused"), "{log}");
    drop(held);
    stage.until_given_back(before);
}

#[test]
fn two_identities_leave_places_to_others() {
    let stage = Stage::start(&["--xds-max-connections", "64", "--xds-max-share", "8"]);
    let greedy = [stage.config("other.default"), stage.config("another.default")];
    let other = stage.config("edge.default");
    let mut held = Vec::new();
    // one alone may have three quarters, so that it takes two to take all
    for config in greedy.iter().flat_map(|config| [config; 80]) {
        let mut tls = stage.connect(config, 1).unwrap();
        let said = tls.write_all(&[PREFACE, &request(1), &subscription(1)].concat());
        let mut head = [0; 9];
        if said.is_ok() && tls.read_exact(&mut head).is_ok() {
            held.push(tls);
        }
    }
    assert!(held.len() >= 48, "{}", held.len());
    wait::until("another proxy to be served", || stage.is_served(&other).then_some(())).unwrap();
    assert!(stage.refused("share") > 0);
    stage.edit("meanwhile");
}

#[test]
fn floods_of_frames_and_headers_slow_no_other_client_to_a_halt() {
    let stage = Stage::start(&[]);
    let config = stage.config("edge.default");
    let greedy = stage.config("other.default");
    // a block of the largest size: each byte is a header
    let block = frame(1, 5, 1, &vec![0x82; 16_000]);
    let floods: [(&str, Vec<u8>); 5] = [
        ("header blocks", block),
        ("WINDOW_UPDATE", frame(8, 0, 0, &1_u32.to_be_bytes())),
        ("PRIORITY", frame(2, 0, 1, &[0, 0, 0, 3, 1])),
        ("an unknown kind", frame(99, 0, 1, &[])),
        ("an unknown kind, long", frame(99, 0, 1, &[0; 16_000])),
    ];
    wait::until("a proxy to be served", || stage.is_served(&config).then_some(())).unwrap();
    let before = stage.memory();
    for (number, (what, flood)) in floods.into_iter().enumerate() {
        let many = flood.repeat((64 << 10) / flood.len() + 1);
        let end = Instant::now() + FLOOD;
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for flooder in 0..FLOODERS {
                let (stage, greedy, many, over) = (&stage, &greedy, &many, &over);
                scope.spawn(move || {
                    let from = u8::try_from(2 + flooder).unwrap();
                    while Instant::now() < end && !over.load(Ordering::Relaxed) {
                        let Ok(mut tls) = stage.connect(greedy, from) else { continue };
                        tls.sock.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
                        let mut said = tls.write_all(PREFACE);
                        while said.is_ok() && Instant::now() < end && !over.load(Ordering::Relaxed) {
                            said = tls.write_all(many);
                        }
                    }
                });
            }
            let served = wait::until("a proxy to be served meanwhile", || stage.is_served(&config).then_some(()));
            over.store(served.is_err(), Ordering::Relaxed);
            served.unwrap_or_else(|error| panic!("{what}: {error}"));
            stage.edit(&format!("flood{number}"));
        });
    }
    assert!(stage.refused("frames") > 0);
    stage.until_given_back(before);
}

/// A request for a method that is not there, in 14 bytes: a field of the table of fields, and what the first has left there.
fn small_request(stream: u32) -> Vec<u8> {
    if stream > 1 {
        return frame(1, 5, stream, &[0x83, 0x86, 0xbf, 0xbe]);
    }
    let path = [0x44, 2, b'/', b'x'];
    let kind = [&[0x40 | 31, 16], &b"application/grpc"[..]].concat();
    frame(1, 5, stream, &[&[0x83, 0x86], &path[..], &kind].concat())
}

#[test]
fn answers_that_are_never_read_take_no_memory_without_bound() {
    let stage = Stage::start(&[]);
    let config = stage.config("edge.default");
    let greedy = stage.config("other.default");
    wait::until("a proxy to be served", || stage.is_served(&config).then_some(())).unwrap();
    let requests: Vec<u8> = (1..).step_by(2).take(16_000).flat_map(small_request).collect();
    // no window for data, so that a client needs not read
    let begin = [PREFACE, &frame(4, 0, 0, &[0, 4, 0, 0, 0, 0])].concat();
    let before = stage.running.memory("VmHWM").unwrap();
    let mut held = Vec::new();
    for _ in 0..UNREAD {
        let tcp = stage.tcp_with_room(2, Some(2_048)).unwrap();
        let mut tls = Stage::begin(&greedy, tcp).unwrap();
        tls.write_all(&begin).unwrap();
        tls.sock.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
        let _not_all_are_read = tls.write_all(&requests);
        held.push(tls);
    }
    wait::until("a proxy to be served meanwhile", || stage.is_served(&config).then_some(())).unwrap();
    stage.edit("meanwhile");
    let most = stage.running.memory("VmHWM").unwrap();
    assert!(most <= before + MOST_KEPT, "{before} bytes before the attack, {most} bytes meanwhile");
    drop(held);
    stage.until_given_back(before);
}

/// A frame of an unknown kind in TLS records of a byte each.
fn in_small_records(tls: &mut Tls) -> Vec<u8> {
    let mut sent = Vec::new();
    for byte in frame(99, 0, 1, &[0; 16_000]) {
        tls.conn.writer().write_all(&[byte]).unwrap();
        while tls.conn.wants_write() {
            tls.conn.write_tls(&mut sent).unwrap();
        }
    }
    sent
}

#[test]
fn a_flood_of_small_tls_records_is_charged() {
    let stage = Stage::start(&[]);
    let config = stage.config("edge.default");
    let greedy = stage.config("other.default");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for from in 2..4 {
            let (stage, greedy, over) = (&stage, &greedy, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let Ok(mut tls) = stage.connect(greedy, from) else { continue };
                    tls.sock.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
                    let mut said = tls.write_all(PREFACE);
                    while said.is_ok() && !over.load(Ordering::Relaxed) {
                        let records = in_small_records(&mut tls);
                        said = tls.sock.write_all(&records);
                    }
                }
            });
        }
        let charged = wait::until("the records to be charged", || (stage.refused("frames") > 0).then_some(()));
        let served = wait::until("a proxy to be served meanwhile", || stage.is_served(&config).then_some(()));
        over.store(true, Ordering::Relaxed);
        charged.unwrap();
        served.unwrap();
    });
    stage.edit("meanwhile");
}

//! The fuzz targets of what files become as ordinary tests, on the stable toolchain, from the same bodies (`fuzz/src`).
#![expect(unreachable_pub, reason = "the bodies are public to the fuzz targets, which are a workspace of their own")]
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::Path;

use peak_alloc::PeakAlloc;

#[path = "../../../fuzz/src/addresses.rs"]
mod addresses;
#[path = "../../../fuzz/src/arguments.rs"]
mod arguments;
#[path = "../../../fuzz/src/files.rs"]
mod files;
#[path = "../../../fuzz/src/generate.rs"]
mod generate;
#[path = "../../../fuzz/src/host_headers.rs"]
mod host_headers;
#[path = "../../../fuzz/src/json_to_objects.rs"]
mod json_to_objects;
#[path = "../../../fuzz/src/pem.rs"]
mod pem;
#[path = "../../../fuzz/src/places.rs"]
mod places;
#[path = "../../../fuzz/src/powers.rs"]
mod powers;
#[path = "../../../fuzz/src/translate.rs"]
mod translate;
#[path = "../../../fuzz/src/translate_history.rs"]
mod translate_history;
#[path = "../../../fuzz/src/world.rs"]
mod world;
#[path = "../../../fuzz/src/yaml_to_objects.rs"]
mod yaml_to_objects;

/// The inputs are bounded in the memory that they need.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

tests::fuzz_targets! {
    addresses: 4000, 24, spelled();
    arguments: 20000, 256, arguments_written();
    files: 600, 4096, cases();
    host_headers: 20000, 64, hosts();
    json_to_objects: 4000, 4096, objects();
    pem: 4000, 8192, pems();
    places: 20000, 256, paths();
    powers: 200, 100, nests();
    translate: 400, 4096, cases();
    translate_history: 300, 4096, Vec::new();
    yaml_to_objects: 1200, 4096, cases();
}

/// Hosts that are answered, and some that are nearly so, with URIs and origins.
fn hosts() -> Vec<Vec<u8>> {
    let hosts =
        ["localhost:8082", "127.0.0.1", "[::1]:1", "admin.example.com.", "localhost.evil.example", "127.1", "[::1]x"];
    let with = |host: &str| format!("{host}\0{host}\0http://{host}").into_bytes();
    hosts.iter().flat_map(|host| [host.as_bytes().to_vec(), with(host)]).collect()
}

/// Paths that are taken, and some that are nearly so, each with where it leads and an address.
fn paths() -> Vec<Vec<u8>> {
    let paths =
        ["/run/app.sock", "//run//app.sock", "/state/xds.sock", "/x/../state/a", "/proc/1/root/a", "a", "/dev/log"];
    let addresses: [&[u8]; 3] =
        [&[0; 16], b"\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x01", b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01"];
    let leading = paths.iter().flat_map(|path| paths.iter().map(move |leads| format!("{path}\0{leads}").into_bytes()));
    let aimed = addresses.iter().map(|address| [*address, b"\x46\x50"].concat());
    leading.chain(aimed).collect()
}

/// Addresses that are closed, each behind a port and in some spellings.
fn spelled() -> Vec<Vec<u8>> {
    let short = [[169, 254, 169, 254], [127, 0, 0, 1], [10, 0, 0, 7], [0, 0, 0, 0], [10, 0, 0, 8]];
    let styles = [[1, 0, 0, 0], [1, 1, 1, 1], [1, 3, 0xe4, 0], [0, 0, 0, 0], [0, 2, 0, 0], [0, 3, 0, 0]];
    let long = |front: [u8; 12], short: [u8; 4], style: [u8; 4]| [&front[..], &short, b"\x46\x50", &style].concat();
    let fronts = [[0; 12], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]];
    let all = fronts.into_iter().flat_map(|front| short.into_iter().map(move |short| (front, short)));
    all.flat_map(|(front, short)| styles.map(|style| long(front, short, style))).collect()
}

/// Arguments that are passed on, and some that are nearly so.
fn arguments_written() -> Vec<Vec<u8>> {
    let listed = "stats-tag,--service-zone,config-yaml,log-level";
    let written = [
        "--stats-tag=a:b",
        "--stats-tag",
        "a:b",
        "--service-zone",
        "$(X)",
        "-l",
        "--config-path",
        "/x",
        "--skip-deprecated-logs",
    ];
    let with = |arguments: &[&str]| {
        [&[listed], arguments].concat().iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>().join(&0xff)
    };
    written
        .iter()
        .flat_map(|one| written.iter().map(move |other| (*one, *other)))
        .map(|(one, other)| with(&[one, other]))
        .collect()
}

/// Hidden uses of powers behind one step of each kind, behind many, and behind more than there may be.
fn nests() -> Vec<Vec<u8>> {
    let steps = (0..6).flat_map(|step| [1, 3, 40, 150].map(|count| vec![step; count]));
    steps
        .flat_map(|steps| (0..7).flat_map(move |leaf| [0, 2].map(|place| [&[leaf, place][..], &steps].concat())))
        .collect()
}

/// A chain and its key in some forms, and a bundle.
fn pems() -> Vec<Vec<u8>> {
    let pair = tests::certificate::self_signed(&["a.example"], false).unwrap();
    let with = |chain: &str, key: &str| [chain.as_bytes(), b"\xff", key.as_bytes()].concat();
    let (chain, key) = (format!("{0}{0}", pair.certificate), pair.key);
    vec![
        with(&chain, &key),
        with(&chain.replace('\n', "\r"), &key.replace("-----\n", "-----\r\n \t")),
        with(
            &chain.replace("-----\n-----", "----------"),
            &format!("-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n{key}"),
        ),
        with(&chain.replace(" CERT", " X509 CERT"), "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"),
    ]
}

/// An object of each of some kinds, behind the number of its kind.
fn objects() -> Vec<Vec<u8>> {
    let metadata =
        r#""metadata":{"name":"a","namespace":"b","resourceVersion":"7","generation":2,"labels":{"x":"\u0031"}}"#;
    let of = |kind: api::Kind, rest: &str| [&[kind as u8][..], format!("{{{metadata},{rest}}}").as_bytes()].concat();
    vec![
        of(
            api::Kind::HttpRoute,
            r#""spec":{"hostnames":["a.b"],"rules":[{"backendRefs":[{"name":"c","port":80}]}]},"status":{}"#,
        ),
        of(
            api::Kind::Gateway,
            r#""spec":{"gatewayClassName":"c","listeners":[{"name":"l","port":443,"protocol":"HTTPS","tls":{"certificateRefs":[{"name":"s"}]}}]}"#,
        ),
        of(api::Kind::Secret, r#""type":"kubernetes.io/tls","data":{"tls.crt":"eA=="}"#),
        of(
            api::Kind::EndpointSlice,
            r#""addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"]}],"ports":[{"port":1.5e3}]"#,
        ),
        of(api::Kind::Namespace, r#""spec":null"#),
    ]
}

/// The inputs of the golden corpus, each behind what its area begins with.
fn cases() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let folders = |of: &Path| {
        let mut folders: Vec<_> = of.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        folders.retain(|path| path.is_dir());
        folders.sort();
        folders
    };
    let mut cases = Vec::new();
    for area in folders(&root) {
        let base = std::fs::read(area.join("_base.yaml")).unwrap_or_default();
        for case in folders(&area) {
            let input = std::fs::read(case.join("input.yaml")).unwrap();
            cases.push([&*input, b"\n---\n", &base].concat());
        }
    }
    cases
}

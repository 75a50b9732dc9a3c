//! Requests whose path, host or header is spelled so that it misses the route that guards: over HTTP/1.1 and HTTP/2, byte by byte.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use tests::authority::{Authority, GOOD};
use tests::backend::Backend;
use tests::client::get_with;
use tests::http2::{PREFACE, frame};
use tests::objects::{documents, gateway, ruled, service};
use tests::ports::free_ports;
use tests::running::Running;
use tests::told::pointed;
use tests::wait;

/// The answer of the application.
const REACHED: &str = "application";

/// Matches of the rules that are guarded, by a server that refuses requests without [`GOOD`].
const GUARDED: [(&str, &str); 6] = [
    ("PathPrefix", "/admin"),
    ("Exact", "/exact/one"),
    ("Exact", "/"),
    ("RegularExpression", "/expression/[a-z]+"),
    ("PathPrefix", "/v1/items:purge"),
    ("PathPrefix", "/caf%C3%A9/%7eann"),
];

/// Spellings of guarded paths that servers read as these.
const SPELLINGS: &[&str] = &[
    "/",
    "//",
    "///?x",
    "//x/..",
    "//.",
    "/x/..//",
    "/\\",
    "/%2f",
    "/%5c",
    "/admin",
    "/admin/",
    "/admin?x",
    "/x/../admin",
    "/x/y/../../admin/users",
    "/../admin",
    "/..//admin",
    "//admin",
    "///admin//users",
    "/%61dmin",
    "/%61%64%6D%69%6e/users",
    "/./admin",
    "/.//./admin",
    "/%2e/admin",
    "/%2E%2e/admin",
    "/x/%2e%2E/admin",
    "/x/.%2e/admin",
    "/x/..%2fadmin",
    "/x/..%2Fadmin?y=/../",
    "/x/%2e%2e%2fadmin",
    "/x/..%5cadmin",
    "/x\\..\\admin",
    "/\\admin",
    "\\admin",
    "/%2fadmin",
    "/admin%2fusers",
    "/admin#x",
    "/x#/../admin",
    "/#/admin",
    "/admin%00",
    "/admin%00/../x/../../admin",
    "/.%00./admin",
    "admin",
    "http://any.example/x/../admin",
    "http://any.example//admin",
    "http://any.example/%61dmin",
    "http://any.example/x/..%2fadmin",
    "/exact/one",
    "/exact//one",
    "/exact/./one?x",
    "/exact/%6fne",
    "/x/..%2Fexact/one",
    "/expression/abc",
    "/expression//abc",
    "/expression/x/../abc",
    "/%65xpression/abc",
    "/v1/items:purge",
    "/v1/items%3Apurge",
    "/v1/items%3apurge/all",
    "/v1/x/../items%3Apurge",
    "/caf%C3%A9/~ann",
    "/caf%c3%a9/~ann",
    "/caf%c3%A9/%7Eann/x",
    "/%63af%C3%a9//%7eann",
];

/// Paths that are not guarded, among them some that are spelled as if they were.
const OPEN: [&str; 7] =
    ["/.x", "/x", "/administrator", "/admin/../x", "/admin/%2e%2e/x", "/exact/one/two", "/v1/items:purged"];

struct World {
    // Ends before its backends do.
    _running: Running,
    port: u16,
    _application: Backend,
    authority: Authority,
}

impl World {
    fn start() -> Self {
        let mut running = Running::prepare().unwrap();
        let [port] = free_ports().unwrap();
        let (application, authority) = (Backend::start(REACHED).unwrap(), Authority::http().unwrap());
        running.write("gateway.yaml", &gateway(port)).unwrap();
        let services = [service("app", application.port), service("authority", authority.port)];
        running.write("services.yaml", &documents(services.iter().map(String::as_str))).unwrap();
        let guard = "    filters: [{type: ExternalAuth, externalAuth: {protocol: HTTP, backendRef: {name: authority, port: 80}, http: {}}}]\n    \
                     backendRefs: [{name: app, port: 80}]\n";
        let guarded = GUARDED
            .map(|(kind, value)| format!("  - matches: [{{path: {{type: {kind}, value: '{value}'}}}}]\n{guard}"));
        let rules = format!("  rules:\n  - backendRefs: [{{name: app, port: 80}}]\n{}", guarded.concat());
        let host = format!("  hostnames: [admin.example, \"*.inner.example\"]\n  rules:\n  - name: all\n{guard}");
        let routes = [ruled("paths", &rules), ruled("host", &host)];
        running.write("routes.yaml", &documents(routes.iter().map(String::as_str))).unwrap();
        running.start().unwrap();
        let world = Self { _running: running, port, _application: application, authority };
        let passes = || get_with(port, "any.example", "/admin", &[("authorization", GOOD)]).ok();
        wait::until("the guarded path", || passes().filter(|answer| answer.status == 200)).unwrap();
        let passes = || get_with(port, "admin.example", "/", &[("authorization", GOOD)]).ok();
        wait::until("the guarded host", || passes().filter(|answer| answer.status == 200)).unwrap();
        world
    }

    /// Returns everything that comes back for a request in HTTP/1.1, byte by byte as given.
    fn first(&self, host: &str, path: &str, header: &str) -> String {
        let text = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{header}connection: close\r\n\r\n");
        self.exchange(text.as_bytes(), |_| false)
    }

    /// The same in HTTP/2: the frames as text, of which bodies can be read. Header blocks are without Huffman coding.
    fn second(&self, host: &str, path: &str, header: Option<(&str, &str)>) -> String {
        let pseudo = [(":method", "GET"), (":scheme", "http"), (":authority", host), (":path", path)];
        let mut block = Vec::new();
        for (name, value) in pseudo.into_iter().chain(header) {
            block.push(0);
            for text in [name, value] {
                block.push(u8::try_from(text.len()).unwrap());
                block.extend_from_slice(text.as_bytes());
            }
        }
        // HEADERS with END_HEADERS and END_STREAM on stream 1
        self.exchange(&[PREFACE, &frame(1, 5, 1, &block)].concat(), is_answered)
    }

    /// Sends, and reads until the end of the connection or of what is waited for.
    fn exchange(&self, bytes: &[u8], is_whole: impl Fn(&[u8]) -> bool) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(bytes).unwrap();
        let (mut answer, mut room) = (Vec::new(), [0; 4096]);
        while !is_whole(&answer) {
            match stream.read(&mut room) {
                Ok(0) => break,
                Ok(length) => answer.extend_from_slice(&room[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&answer)),
            }
        }
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// Returns true if stream 1 has ended: with the last frame of an answer, by a reset, or with the connection.
fn is_answered(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let [a, b, c, kind, flags, _, _, _, stream, behind @ ..] = rest {
        let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        let Some(next) = behind.get(length..) else { return false };
        let ends = matches!(kind, 0 | 1) && flags & 1 == 1 && *stream == 1;
        if ends || matches!(kind, 3 | 7) {
            return true;
        }
        rest = next;
    }
    false
}

#[test]
fn no_spelling_of_a_guarded_path_passes_the_guard() {
    let world = World::start();
    for path in OPEN {
        assert!(world.first("any.example", path, "").contains(REACHED), "{path} is open");
        assert!(world.second("any.example", path, None).contains(REACHED), "{path} is open");
    }
    for path in SPELLINGS {
        let first = world.first("any.example", path, "");
        assert!(!first.contains(REACHED), "{path} passes over HTTP/1.1: {first}");
        let status = first.split(' ').nth(1).unwrap_or_default();
        assert!(["400", "401", "404", "307"].contains(&status), "{path}: {first}");
        if status == "307" {
            let location = first.lines().find_map(|line| line.strip_prefix("location: ")).unwrap();
            let followed = world.first("any.example", location, "");
            assert!(followed.starts_with("HTTP/1.1 401 "), "{path} leads to {location}: {followed}");
        }
        let second = world.second("any.example", path, None);
        assert!(!second.contains(REACHED), "{path} passes over HTTP/2: {second}");
    }
    let paths: Vec<String> = world.authority.take().into_iter().map(|asked| asked.path).collect();
    assert!(paths.iter().any(|path| path == "/admin"), "the server that refuses is the one that was asked: {paths:?}");
}

#[test]
fn no_spelling_of_a_guarded_host_passes_the_guard() {
    let world = World::start();
    for host in [
        "admin.example",
        "ADMIN.Example",
        "admin.example.",
        "admin.example:80",
        "admin.example.:8080",
        "Admin.Example.:1",
        // Servers take the last dot away too.
        "admin.example..",
        "admin.example...",
        "admin.example..:80",
        "admin.example.:80.",
        "admin.example..:80.",
        "x.inner.example",
        "x.inner.example.",
        "X.Inner.example.:80",
        "x.inner.example..",
    ] {
        let is_name = !host.contains("..") && !host.ends_with("80.");
        let first = world.first(host, "/x", "");
        assert!(!is_name || first.starts_with("HTTP/1.1 401 "), "{host} is not the guarded host: {first}");
        for answer in [first, world.second(host, "/x", None)] {
            assert!(!answer.contains(REACHED), "{host} passes: {answer}");
        }
        let absolute = world.first("any.example", &format!("http://{host}/x"), "");
        assert!(!absolute.contains(REACHED), "http://{host}/x passes: {absolute}");
    }
    for open in ["other.example", "other.example.", "other.example.:80"] {
        assert!(world.first(open, "/x", "").contains(REACHED), "{open} is open");
    }
}

#[test]
fn a_header_with_an_underscore_reaches_no_backend() {
    let world = World::start();
    assert!(world.first("any.example", "/x", "x-user: ann\r\n").contains(REACHED));
    assert!(world.second("any.example", "/x", Some(("x-user", "ann"))).contains(REACHED));
    assert!(world.first("any.example", "/x", "x_user: root\r\n").starts_with("HTTP/1.1 400 "));
    assert!(!world.second("any.example", "/x", Some(("x_user", "root"))).contains(REACHED));
}

#[test]
fn validate_names_what_no_request_can_match() {
    let route = ruled(
        "r",
        "  rules:\n  - matches:\n    - path: {type: Exact, value: '/a%5cb'}\n    - path: {type: RegularExpression, value: '/a//b'}\n    \
         - path: {value: '/%61dmin'}\n      headers: [{name: x_user, value: a}]\n    backendRefs: [{name: app, port: 80}]\n",
    );
    let said = pointed(&documents([&*gateway(80), &*service("app", 8080), &*route])).unwrap().join("\n");
    for words in [
        "redirect to the path with a slash",
        "merge repeated slashes",
        "compared as \"/admin\"",
        "underscore in a header's name",
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }
}

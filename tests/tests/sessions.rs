//! Sessions and retry budgets of backends, from files through a real Envoy: a client comes back to the endpoint that answered it, and what is retried is
//! bounded.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use tests::backend::Backend;
use tests::client::get;
use tests::objects::{documents, gateway, ruled, service};
use tests::ports::free_ports;
use tests::running::Running;
use tests::wait;

const HOST: &str = "www.example.com";

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    /// The value of a header; none if it has none of the name.
    fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.split_once(": ").filter(|(found, _)| *found == name))
            .map(|(_, value)| value)
    }

    /// The values of a header that may come several times.
    fn headers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(move |(found, _)| *found == name).map(|(_, value)| value)
    }

    /// All cookies, as a client brings them back.
    fn cookies(&self) -> String {
        let all: Vec<&str> = self.headers("set-cookie").filter_map(|cookie| cookie.split(';').next()).collect();
        format!("cookie: {}", all.join("; "))
    }

    /// The cookie that is to be brought back.
    fn cookie(&self) -> Option<String> {
        Some(self.header("set-cookie")?.split(';').next()?.to_owned())
    }
}

fn ask(port: u16, path: &str, header: &str) -> Answer {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let more = if header.is_empty() { String::new() } else { format!("{header}\r\n") };
    // In one piece: the second of two would wait until the first is acknowledged.
    let request = format!("GET {path} HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n{more}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

fn until(port: u16, path: &str, status: u16) {
    let asked = || get(port, HOST, path).ok().filter(|answer| answer.status == status);
    wait::until(&format!("{status} at {path}"), asked).unwrap();
}

/// Who answers so many requests that bring nothing, or this.
fn answering(port: u16, path: &str, header: &str) -> BTreeSet<String> {
    (0..50).map(|_| ask(port, path, header).body).collect()
}

fn pod(name: &str, address: Ipv4Addr, app: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {app}}}}}\nstatus:\n  phase: Running\n  podIP: {address}\n  \
         conditions: [{{type: Ready, status: \"True\"}}]\n"
    )
}

fn x_backend(app: &str, port: u16, session: &str) -> String {
    format!(
        "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackend\nmetadata: {{name: {app}}}\nspec:\n  type: EndpointSelector\n  \
         port: {{number: {port}}}\n  endpointSelector: {{matchLabels: {{app: {app}}}}}\n  sessionPersistence: {session}\n"
    )
}

#[test]
fn a_client_comes_back_to_its_endpoint() {
    let [port, pods] = free_ports().unwrap();
    let address = |last| Ipv4Addr::new(127, 0, 0, last);
    let start = |name: &str, last| Backend::start_at(name, (address(last), pods).into(), 200).unwrap();
    let servers = [start("web-1", 11), start("web-2", 12), start("api-1", 13), start("api-2", 14)];
    let reference = |app| format!("{{group: gateway.networking.x-k8s.io, kind: XBackend, name: {app}}}");
    let (web, api) = (reference("web"), reference("api"));
    let rules = format!(
        "  rules:\n  - matches: [{{path: {{value: /web}}}}]\n    backendRefs: [{web}]\n  - matches: [{{path: {{value: /api}}}}]\n    \
         backendRefs: [{api}]\n  - matches: [{{path: {{value: /both}}}}]\n    backendRefs: [{web}, {api}]\n"
    );
    let mut running = Running::prepare().unwrap();
    let objects = [
        gateway(port),
        ruled("shop", &rules),
        x_backend("web", pods, "{type: Cookie, cookie: {}}"),
        x_backend("api", pods, "{type: Header, header: {name: x-api}}"),
        pod("web-1", address(11), "web"),
        pod("api-1", address(13), "api"),
        pod("api-2", address(14), "api"),
    ];
    running.write("all.yaml", &documents(objects.iter().map(String::as_str))).unwrap();
    running.write("web-2.yaml", &pod("web-2", address(12), "web")).unwrap();
    running.start().unwrap();
    until(port, "/web", 200);
    until(port, "/api", 200);

    // by a cookie, which is a session's: nothing says how long it is kept
    assert_eq!(answering(port, "/web", "").len(), 2, "without one any endpoint answers");
    let first = ask(port, "/web", "");
    let set = first.header("set-cookie").unwrap().to_ascii_lowercase();
    assert!(set.starts_with("session-") && set.contains("path=/;") && set.contains("httponly"), "{set}");
    assert!(set.contains("samesite=strict") && !set.contains("max-age") && !set.contains("expires"), "{set}");
    let cookie = format!("cookie: other=1; {}", first.cookie().unwrap());
    assert_eq!(answering(port, "/web", &cookie), BTreeSet::from([first.body]));
    // by a header
    let first = ask(port, "/api", "");
    let header = format!("x-api: {}", first.header("x-api").unwrap());
    assert_eq!(answering(port, "/api", &header), BTreeSet::from([first.body]));

    // who has a session with one of several stays with it, whatever the weights say
    let second = (0..100).map(|_| ask(port, "/web", "")).find(|answer| answer.body == "web-2").unwrap();
    let cookie = format!("cookie: {}", second.cookie().unwrap());
    assert_eq!(answering(port, "/both", &cookie), BTreeSet::from(["web-2".to_owned()]));
    assert!(answering(port, "/both", "").iter().any(|name| name.starts_with("api")));

    // an endpoint that is gone: the client goes to another, and stays with that
    running.remove("web-2.yaml").unwrap();
    let moved =
        || Some(ask(port, "/web", &cookie)).filter(|answer| answer.body == "web-1" && answer.cookie().is_some());
    let moved = wait::until("another endpoint", moved).unwrap();
    running.write("web-2.yaml", &pod("web-2", address(12), "web")).unwrap();
    let back = || Some(answering(port, "/web", "")).filter(|names| names.len() == 2);
    wait::until("both endpoints", back).unwrap();
    let cookie = format!("cookie: {}", moved.cookie().unwrap());
    assert_eq!(answering(port, "/web", &cookie), BTreeSet::from(["web-1".to_owned()]));
    drop(servers);
}

#[test]
fn a_session_of_a_rule_is_with_one_of_its_backends_whatever_the_weights_say() {
    let [port, pods] = free_ports().unwrap();
    let names = ["web-1", "web-2", "api-1", "api-2"];
    let address = |last| Ipv4Addr::new(127, 0, 0, last);
    let places = || names.into_iter().zip(21..);
    let servers: Vec<_> =
        places().map(|(name, last)| Backend::start_at(name, (address(last), pods).into(), 200).unwrap()).collect();
    let backend = |app: &str| x_backend(app, pods, "{}").replace("  sessionPersistence: {}\n", "");
    let mut objects = vec![gateway(port), backend("web"), backend("api")];
    let pods_of = |app: &str| {
        let own = places().filter(|(name, _)| name.starts_with(app));
        own.map(|(name, last)| pod(name, address(last), app)).collect::<Vec<_>>().join("---\n")
    };
    objects.push(pods_of("web"));
    let api = pods_of("api");
    let rule = |path: &str, persistence: &str, filters: &str| {
        let to = |app: &str, weight: u32| {
            format!("{{group: gateway.networking.x-k8s.io, kind: XBackend, name: {app}, weight: {weight}{filters}}}")
        };
        format!(
            "  - matches: [{{path: {{value: {path}}}}}]\n    sessionPersistence: {persistence}\n    backendRefs: [{}, {}]\n",
            to("web", 2),
            to("api", 1)
        )
    };
    let rewrite = ", filters: [{type: URLRewrite, urlRewrite: {hostname: a.example}}]";
    let rules = [
        rule("/named", "{cookie: {name: my.session, path: /named, lifetimeType: Permanent}, absoluteTimeout: 1h}", ""),
        rule("/unnamed", "{cookie: {}}", ""),
        rule("/rewritten", "{cookie: {name: other}}", rewrite),
    ];
    objects.push(ruled("shop", &format!("  rules:\n{}", rules.concat())));
    let mut running = Running::prepare().unwrap();
    running.write("all.yaml", &documents(objects.iter().map(String::as_str))).unwrap();
    running.write("api.yaml", &api).unwrap();
    running.start().unwrap();
    until(port, "/named", 200);
    for path in ["/named", "/unnamed", "/rewritten"] {
        assert_eq!(answering(port, path, "").len(), 4, "{path}: who brings nothing goes anywhere");
        let mut met = BTreeSet::new();
        while met.len() < 4 {
            let first = ask(port, path, "");
            let set: Vec<&str> = first.headers("set-cookie").collect();
            assert_eq!(set.len(), if path == "/unnamed" { 1 } else { 2 }, "{set:?}");
            let same = |part: &str| set.iter().all(|cookie| cookie.to_ascii_lowercase().contains(part));
            assert!(path != "/named" || same("path=/named") && same("max-age=3600"), "{set:?}");
            let cookie = format!("{}; behind=2", first.cookies().replace("cookie: ", "cookie: before=1; "));
            assert_eq!(answering(port, path, &cookie), BTreeSet::from([first.body.clone()]), "{path} {cookie}");
            met.insert(first.body);
        }
    }
    // with a backend that has nobody any more there is none: its clients get another, and stay with that
    let of_api = (0..200).map(|_| ask(port, "/named", "")).find(|answer| answer.body.starts_with("api")).unwrap();
    running.remove("api.yaml").unwrap();
    let moved = || Some(ask(port, "/named", &of_api.cookies())).filter(|answer| answer.body.starts_with("web"));
    let moved = wait::until("another backend", moved).unwrap();
    running.write("api.yaml", &api).unwrap();
    let back = || (0..20).any(|_| ask(port, "/named", "").body.starts_with("api")).then_some(());
    wait::until("all backends", back).unwrap();
    assert_eq!(answering(port, "/named", &moved.cookies()), BTreeSet::from([moved.body]));
    drop(servers);
}

#[test]
fn a_permanent_cookie_says_how_long_it_is_kept() {
    let [port] = free_ports().unwrap();
    let server = Backend::start("one").unwrap();
    let mut running = Running::prepare().unwrap();
    let rules = "  rules:\n  - sessionPersistence: {absoluteTimeout: 5m, cookie: {name: stay, lifetimeType: Permanent}}\n    \
                 backendRefs: [{name: one, port: 80}]\n";
    let objects = [gateway(port), ruled("shop", rules), service("one", server.port)];
    running.write("all.yaml", &documents(objects.iter().map(String::as_str))).unwrap();
    running.start().unwrap();
    until(port, "/", 200);
    let answer = ask(port, "/", "");
    let set: Vec<&str> = answer.headers("set-cookie").collect();
    assert!(set.len() == 2 && set.iter().all(|set| set.starts_with("stay") && set.contains("Max-Age=300")), "{set:?}");
}

#[test]
fn what_a_budget_leaves_no_room_for_is_not_retried_and_answered_with_503() {
    let [port] = free_ports().unwrap();
    let server = Backend::answering("one", 500).unwrap();
    let mut running = Running::prepare().unwrap();
    let rules = "  rules:\n  - matches: [{path: {value: /retried}}]\n    retry: {codes: [500], attempts: 1}\n    backendRefs: [{name: one, port: 80}]\n  \
                 - backendRefs: [{name: one, port: 80}]\n";
    let policy = |percent: u32, count: u32| {
        format!(
            "apiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackendTrafficPolicy\nmetadata: {{name: few}}\nspec:\n  \
             targetRefs: [{{group: \"\", kind: Service, name: one}}]\n  retryConstraint: {{budget: {{percent: {percent}}}, minRetryRate: \
             {{count: {count}, interval: 1s}}}}\n"
        )
    };
    let objects = [gateway(port), ruled("shop", rules), service("one", server.port)];
    running.write("all.yaml", &documents(objects.iter().map(String::as_str))).unwrap();
    running.start().unwrap();
    // without a budget the answer to the last try is the client's
    until(port, "/retried", 500);
    // Of no share and the least rate that there is, one retry at a time: one after the other all are tried again.
    running.write("policy.yaml", &policy(0, 1)).unwrap();
    let told = || running.status(&["xbackendtrafficpolicy", "few", "-o", "yaml"]).ok();
    wait::until("the policy to hold", || told()?.contains("the policy holds").then_some(())).unwrap();
    until(port, "/retried", 500);
    // Two at a time are one too many for the budget: of many at a time some are not tried again.
    let at_once = || {
        let asked: Vec<_> = (0..40).map(|_| std::thread::spawn(move || ask(port, "/retried", "").status)).collect();
        let statuses: BTreeSet<u16> = asked.into_iter().map(|asked| asked.join().unwrap()).collect();
        statuses.contains(&503).then_some(statuses)
    };
    let statuses = wait::until("503 over the budget", at_once).unwrap();
    assert!(statuses.iter().all(|status| [500, 503].contains(status)), "{statuses:?}");
    // what no rule retries is answered as the backend does
    until(port, "/", 500);
    running.remove("policy.yaml").unwrap();
    until(port, "/retried", 500);
}

//! Backends that aim at sockets and ports of Chancery and its Envoys.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tests::backend::Backend;
use tests::certificate::self_signed;
use tests::client::{get, get_tls};
use tests::elsewhere::{Elsewhere, cleartext, socket_example};
use tests::objects::{documents, gateway, listeners, route, ruled, service, tls_secret};
use tests::ports::free_ports;
use tests::running::Running;
use tests::wait;

/// A Gateway with a good route at `/good`, and an attacker's at `/evil`.
struct World {
    running: Running,
    port: u16,
    _backend: Backend,
}

impl World {
    fn start(options: &[&str]) -> Self {
        let backend = Backend::start("good").unwrap();
        let [port] = free_ports().unwrap();
        let mut running = Running::prepare().unwrap().with(options);
        let objects = [gateway(port), service("good", backend.port), route("good", &[("/good", "good")])];
        running.write("good.yaml", &documents(objects.iter().map(String::as_str))).unwrap();
        running.start().unwrap();
        let world = Self { running, port, _backend: backend };
        world.is_served();
        world
    }

    fn is_served(&self) {
        let answer = || get(self.port, "x.example", "/good").ok().filter(|answer| answer.status == 200);
        wait::until("the good route", answer).unwrap();
    }

    /// The attacker routes `/evil` to a `Backend` with this endpoint; the words of the refusal.
    fn refused(&self, endpoint: &str) -> String {
        // Another name each time: a problem of an earlier one is no answer.
        let name = format!("evil-{}", fastrand::u64(..));
        let objects = [evil(&name, endpoint), to_backend(&name)];
        self.running.write("evil.yaml", &documents(objects.iter().map(String::as_str))).unwrap();
        let words = wait::until(&format!("a refusal of {endpoint}"), || {
            let all = self.running.status(&["problems"]).ok()?;
            all.lines().find(|line| line.contains(&format!("Backend default/{name}"))).map(str::to_owned)
        });
        let words = words.unwrap();
        let answer = || get(self.port, "x.example", "/evil").ok().filter(|answer| answer.status == 500);
        wait::until(&format!("500 for {endpoint}"), answer).unwrap();
        self.is_served();
        words
    }

    /// The attacker routes there and gets an answer of the proxy that is not 500: the `Backend` is used.
    fn used(&self, name: &str, endpoint: &str) {
        let objects = [evil(name, endpoint), to_backend(name)];
        self.running.write("evil.yaml", &documents(objects.iter().map(String::as_str))).unwrap();
        let answer = || get(self.port, "x.example", "/evil").ok().filter(|answer| answer.status == 503);
        wait::until(&format!("503, as {endpoint} hears no HTTP"), answer).unwrap();
    }
}

/// A `Backend` with one endpoint (in one line).
fn evil(name: &str, endpoint: &str) -> String {
    format!(
        "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: Backend\nmetadata: {{name: {name}}}\nspec: {{endpoints: [{endpoint}]}}\n"
    )
}

fn to_backend(name: &str) -> String {
    let reference = format!("{{group: gateway.envoyproxy.io, kind: Backend, name: {name}}}");
    ruled("evil", &format!("  rules: [{{matches: [{{path: {{value: /evil}}}}], backendRefs: [{reference}]}}]\n"))
}

/// The folder of the proxy: an attacker does not know its name, this test does.
fn folder_of_proxy(running: &Running) -> Option<PathBuf> {
    let folders = std::fs::read_dir(running.state().join("gateways")).ok()?;
    folders.flatten().map(|entry| entry.path()).next()
}

fn unix(path: impl AsRef<Path>) -> String {
    format!("{{unix: {{path: {:?}}}}}", path.as_ref())
}

#[test]
fn backend_that_names_a_socket_of_chancery_is_refused_in_each_spelling() {
    let world = World::start(&[]);
    let folder = folder_of_proxy(&world.running).unwrap();
    let elsewhere = TempDir::new().unwrap();
    symlink(&folder, elsewhere.path().join("folder")).unwrap();
    symlink(folder.join("admin.sock"), elsewhere.path().join("file")).unwrap();
    symlink(elsewhere.path().join("folder"), elsewhere.path().join("twice")).unwrap();
    for name in ["xds.sock", "admin.sock"] {
        let socket = folder.join(name);
        let text = socket.display().to_string();
        let relative = text.trim_start_matches('/').to_owned();
        let spellings = [
            text.clone(),
            format!("/{text}"),
            format!("/tmp/../{relative}"),
            format!("/./{relative}"),
            relative.clone(),
            format!("/proc/self/root/{relative}"),
            format!("/proc/1/root/{relative}"),
            format!("/dev/fd/../root/{relative}"),
            format!("/dev/fd/../cwd/{relative}"),
            format!("//dev/fd/../task/../root/{relative}"),
            elsewhere.path().join("folder").join(name).display().to_string(),
            elsewhere.path().join("twice").join(name).display().to_string(),
        ];
        for spelling in spellings.iter().filter(|path| path.len() <= 107) {
            world.refused(&unix(spelling));
        }
    }
    world.refused(&unix(elsewhere.path().join("file")));
    world.refused(&unix(world.running.state().join("admin.sock")));
}

/// A link that is turned back and forth passes a look that is taken between: then only a name that nobody knows and a token help.
#[test]
fn names_of_folders_of_proxies_are_shown_to_no_other_user() {
    let world = World::start(&[]);
    let folder = folder_of_proxy(&world.running).unwrap();
    let name = folder.file_name().unwrap().to_str().unwrap();
    let [envoy] = world.running.envoys()[..] else { panic!("another number of Envoys") };
    for shown in ["net/unix", "net/tcp", "cmdline", "comm", "status", "stat", "limits", "mountinfo"] {
        let text = std::fs::read(format!("/proc/{envoy}/{shown}")).unwrap();
        assert!(!String::from_utf8_lossy(&text).contains(name), "{shown} shows {name}");
    }
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    assert!(sockets.contains("xds.sock") && sockets.contains("admin.sock"), "the sockets are in the list");
    // Envoy itself could be led to its own folder (/proc/self/cwd), so what is known of its admin socket is no name of it.
    let is_gone = || (!folder.join("admin.sock").exists()).then_some(());
    wait::until("the admin socket to have another name", is_gone).unwrap();
}

#[test]
fn admin_socket_of_chancery_answers_nobody_without_its_token() {
    let world = World::start(&[]);
    let token = world.running.state().join("admin.token");
    assert_eq!(std::fs::metadata(&token).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(world.running.asked("/status").unwrap().starts_with("HTTP/1.1 200"));
    for (path, header) in
        [("/status", ""), ("/log?level=trace", ""), ("/healthz", ""), ("/status", "authorization: Bearer \r\n")]
    {
        let mut admin = UnixStream::connect(world.running.state().join("admin.sock")).unwrap();
        write!(admin, "GET {path} HTTP/1.1\r\nhost: localhost\r\n{header}connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        admin.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("admin.token"), "{answer}");
    }
}

#[test]
fn link_that_is_turned_to_a_socket_of_chancery_is_refused_from_then_on() {
    let world = World::start(&[]);
    let elsewhere = TempDir::new().unwrap();
    let (link, harmless) = (elsewhere.path().join("link"), elsewhere.path().join("harmless"));
    std::fs::create_dir(&harmless).unwrap();
    symlink(&harmless, &link).unwrap();
    world.used("link", &unix(link.join("xds.sock")));
    let turned = elsewhere.path().join("turned");
    symlink(folder_of_proxy(&world.running).unwrap(), &turned).unwrap();
    std::fs::rename(&turned, &link).unwrap();
    let answer = || get(world.port, "x.example", "/evil").ok().filter(|answer| answer.status == 500);
    wait::until("500 once the link leads to Chancery", answer).unwrap();
    assert!(world.running.status(&["problems"]).unwrap().contains("which belongs to Chancery"));
    // Turned back, it is refused for a while: what leads to Chancery now and then is not used between.
    symlink(&harmless, &turned).unwrap();
    std::fs::rename(&turned, &link).unwrap();
    let held =
        || world.running.status(&["problems"]).ok().filter(|all| all.contains("lately, where no Backend may lead"));
    wait::until("the refusal of a link that was turned back", held).unwrap();
    assert_eq!(get(world.port, "x.example", "/evil").unwrap().status, 500);
}

/// Links of 1,600 names each, one to the next: following the first takes the kernel some 0.1 s.
fn costly_links(folder: &Path) {
    std::fs::create_dir(folder.join("a")).unwrap();
    std::fs::create_dir(folder.join("end")).unwrap();
    for number in 0..38 {
        let next = if number < 37 { format!("l{}", number + 1) } else { "end".to_owned() };
        symlink("a/../".repeat(810) + &next, folder.join(format!("l{number}"))).unwrap();
    }
}

/// Makes edits of another author, each of which is served.
fn others_are_served(world: &World, round: &str) {
    for number in 0..10 {
        let name = format!("other-{round}-{number}");
        let path = format!("/{name}");
        world.running.write(&format!("{name}.yaml"), &route(&name, &[(&path, "good")])).unwrap();
        let answer = || get(world.port, "x.example", &path).ok().filter(|answer| answer.status == 200);
        wait::until(&path, answer).unwrap();
    }
}

#[test]
fn links_that_are_costly_to_follow_hold_up_no_edit_of_others() {
    let mut world = World::start(&[]);
    let elsewhere = TempDir::new().unwrap();
    costly_links(elsewhere.path());
    let missing = "x/".repeat(20);
    let endpoints: Vec<String> =
        (0..40).map(|number| unix(elsewhere.path().join(format!("l0/{missing}{number:03}")))).collect();
    world.refused(&endpoints.join(", "));
    let said = || world.running.status(&["problems"]).ok()?.contains("more than 40 links or 256 names").then_some(());
    wait::until("the words of the bound", said).unwrap();
    others_are_served(&world, "backend");
    // The same in the folder that is read: 200 links over them.
    costly_links(&world.running.conf());
    for number in 0..200 {
        symlink(format!("l0/{missing}{number}"), world.running.conf().join(format!("link{number}.yaml"))).unwrap();
    }
    others_are_served(&world, "folder");
    let problem = || {
        world
            .running
            .status(&["problems"])
            .ok()
            .filter(|all| all.contains("more than 40 links or 256 names are on the way"))
    };
    wait::until("the problem of the links", problem).unwrap();
    // Nor does a start wait for them.
    world.running.kill_chancery().unwrap();
    world.running.start().unwrap();
    others_are_served(&world, "again");
}

#[test]
fn socket_has_to_be_below_a_folder_that_the_operator_named() {
    let allowed = TempDir::new().unwrap();
    let root = allowed.path().display().to_string();
    let world = World::start(&["--backend-sockets", &root]);
    world.used("good-socket", &unix(allowed.path().join("app.sock")));
    let elsewhere = TempDir::new().unwrap();
    symlink(elsewhere.path().join("other.sock"), allowed.path().join("link")).unwrap();
    for path in [elsewhere.path().join("app.sock"), allowed.path().join("link")] {
        let words = world.refused(&unix(path));
        assert!(words.contains("--backend-sockets"), "{words}");
    }
}

#[test]
fn backend_at_an_address_of_chancery_is_refused_in_each_spelling() {
    let [xds, admin, health] = free_ports().unwrap();
    let at = |port: u16| format!("127.0.0.1:{port}");
    let all = format!("0.0.0.0:{health}");
    let world = World::start(&["--xds-listen", &at(xds), "--admin-listen", &at(admin), "--health-listen", &all]);
    for port in [xds, admin, health] {
        for address in ["127.0.0.1", "::ffff:127.0.0.1", "::ffff:7f00:1", "0.0.0.0", "::"] {
            world.refused(&format!("{{ip: {{address: \"{address}\", port: {port}}}}}"));
        }
        for host in ["localhost", "a.localhost", "127.1", "2130706433"] {
            world.refused(&format!("{{fqdn: {{hostname: \"{host}\", port: {port}}}}}"));
        }
    }
    world.refused(&format!("{{ip: {{address: \"::1\", port: {health}}}}}"));
    world.refused(&format!("{{ip: {{address: \"127.8.8.8\", port: {health}}}}}"));
    // By a Service, in slices and by another name.
    let slices = documents([&*service("evil", admin), &*route("evil", &[("/evil", "evil")])]);
    let external = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: evil}}\nspec: {{type: ExternalName, externalName: localhost, ports: [{{port: {admin}}}]}}\n"
    );
    let external =
        documents([&*external, &*route("evil", &[("/evil", "evil")]).replace("port: 80", &format!("port: {admin}"))]);
    for (objects, status) in [(slices, 503), (external, 500)] {
        world.running.write("evil.yaml", &objects).unwrap();
        let answer = || get(world.port, "x.example", "/evil").ok().filter(|answer| answer.status == status);
        wait::until(&format!("{status} for a Service"), answer).unwrap();
        let reason = || world.running.status(&["problems"]).ok().filter(|all| all.contains("Chancery listens"));
        wait::until("the reason", reason).unwrap();
    }
    world.is_served();
}

#[test]
fn envoy_without_the_token_gets_nothing_on_its_socket() {
    let [port] = free_ports().unwrap();
    let mut running = Running::prepare().unwrap().with(&["--no-envoy"]);
    running.write("gateway.yaml", &gateway(port)).unwrap();
    running.start().unwrap();
    let place = TempDir::new().unwrap();
    let good = socket_example(&running, "default/edge", place.path()).unwrap();
    let (before, rest) = good.split_once("        http_filters:\n").unwrap();
    let (_, after) = rest.split_once("layered_runtime:").unwrap();
    let attacker = Elsewhere::run(place.path(), &format!("{before}layered_runtime:{after}")).unwrap();
    wait::until("the refusal", || running.log().contains("no bearer token").then_some(())).unwrap();
    drop(attacker);
    assert!(!running.status(&["-o", "yaml"]).unwrap().contains("Programmed: \"True\""));
    let _envoy = Elsewhere::run(place.path(), &good).unwrap();
    wait::until("the Gateway to be served", || get(port, "x.example", "/").ok()).unwrap();
    let log = running.log();
    let token = std::fs::read_to_string(folder_of_proxy(&running).unwrap().join("token")).unwrap();
    assert!(!log.contains(&token));
}

#[test]
fn cleartext_port_gives_what_flags_with_insecure_in_their_names_grant() {
    for (flags, with_token, http, https) in [
        (&[][..], false, false, false),
        (&[], true, true, false),
        (&["--insecure-xds-clients"], false, true, false),
        (&["--insecure-xds-secrets"], false, false, false),
        (&["--insecure-xds-secrets"], true, true, true),
        (&["--insecure-xds-clients", "--insecure-xds-secrets"], false, true, true),
    ] {
        let [plain, tls, xds] = free_ports().unwrap();
        let address = format!("127.0.0.1:{xds}");
        let mut running = Running::prepare().unwrap().with(&["--no-envoy", "--xds-listen", &address]).with(flags);
        let server = self_signed(&["x.example"], false).unwrap();
        let both = listeners(&format!(
            "  - {{name: http, protocol: HTTP, port: {plain}}}\n  - {{name: https, protocol: HTTPS, port: {tls}, tls: \
             {{certificateRefs: [{{name: cert}}]}}}}\n"
        ));
        running
            .write("all.yaml", &documents([&*both, &*tls_secret("cert", &server.certificate, &server.key)]))
            .unwrap();
        running.start().unwrap();
        let token = wait::until("the token", || std::fs::read_to_string(folder_of_proxy(&running)?.join("token")).ok());
        let header = format!("{{key: authorization, value: Bearer {}}}", token.unwrap());
        let place = TempDir::new().unwrap();
        let node = "{id: attacker, cluster: default/edge}";
        let bootstrap = cleartext(place.path(), node, xds, if with_token { &header } else { "" });
        let _envoy = Elsewhere::run(place.path(), &bootstrap).unwrap();
        let case = format!("{flags:?} with token: {with_token}");
        if !http {
            let refusal = || running.log().contains("no bearer token").then_some(());
            wait::until(&format!("a refusal, {case}"), refusal).unwrap();
            continue;
        }
        wait::until(&format!("HTTP, {case}"), || get(plain, "x.example", "/").ok()).unwrap();
        let served = || get_tls(tls, "x.example", "/", &[&server.certificate]).ok();
        match https {
            true => drop(wait::until(&format!("HTTPS, {case}"), served).unwrap()),
            // Both listeners are in one response: the other is there.
            false => assert!(served().is_none() && TcpListener::bind(("127.0.0.1", tls)).is_ok(), "{case}"),
        }
    }
}

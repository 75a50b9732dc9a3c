//! No answer is wrong while everything changes 50 times a second and Chancery is killed in between: with the Envoys that it starts itself, which
//! ask by delta, and with some that are elsewhere and ask by the state of the world. What was changed a while ago is answered in one way only.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tests::backend::Backend;
use tests::certificate::{Pair, self_signed};
use tests::client::{Answer, get, get_tls};
use tests::elsewhere::{Elsewhere, Way, server};
use tests::objects::{documents, listeners, route, service, tls_secret};
use tests::ports::free_ports;
use tests::prober::{Allowed, Prober, body, over_kept_tls};
use tests::running::Running;
use tests::wait;

/// One change every 20 ms.
const PACE: Duration = Duration::from_millis(20);

/// So many changes pass between a thing and what names it, coming and going: a Chancery that starts reads the folder file by file, and
/// would see a route without its service where both change while it reads.
const APART: usize = 150;

const SLOTS: usize = 8;

/// So often Chancery is killed while everything changes.
const KILLS: usize = 3;

/// Long after a change that Chancery sees: from then on nothing that was there before may be answered.
const SETTLED: Duration = Duration::from_secs(5);

/// The same for a change that was not live yet when Chancery was killed, from then on: it has to start first.
const SETTLED_AFTER_KILL: Duration = Duration::from_secs(8);

/// How many changes; by hand `CHANGES=20000`.
fn changes() -> usize {
    std::env::var_os("CHANGES").and_then(|text| text.to_str()?.parse().ok()).unwrap_or(2000)
}

/// What was written down, and from when to when it was so.
struct Written<T> {
    value: T,
    from: Instant,
    /// When what is there instead was written.
    until: Option<Instant>,
}

/// All that one thing was.
struct Past<T>(Vec<Written<T>>);

impl<T: Copy + PartialEq> Past<T> {
    fn of(value: T) -> Self {
        Self(vec![Written { value, from: Instant::now(), until: None }])
    }

    /// Each value that a request may have met that was under way from then until then.
    fn values(&self, sent: Instant, answered: Instant, kills: &[Instant]) -> impl Iterator<Item = T> {
        let over = |at: Instant| {
            let seen = at + SETTLED;
            let unseen = kills.iter().filter(|kill| **kill <= seen).map(|kill| *kill + SETTLED_AFTER_KILL);
            unseen.fold(seen, Instant::max)
        };
        let possible = move |it: &&Written<T>| it.from <= answered && it.until.is_none_or(|until| over(until) >= sent);
        self.0.iter().filter(possible).map(|it| it.value)
    }
}

/// Route and backend of one slot: each changes by itself.
struct Truth {
    has_route: Past<bool>,
    backend: Past<usize>,
}

/// What the slots were when, and how many answers had to be the one right one, of how many.
struct Truths {
    slots: [Mutex<Truth>; SLOTS],
    kills: Mutex<Vec<Instant>>,
    /// Of these answers: those of a backend, and those that there is none.
    exact: [AtomicU64; 2],
    judged: AtomicU64,
}

impl Truths {
    /// Each slot has a route to its first backend.
    fn new() -> Self {
        let truth = |_| Mutex::new(Truth { has_route: Past::of(true), backend: Past::of(0) });
        let slots = std::array::from_fn(truth);
        Self { slots, kills: Mutex::default(), exact: Default::default(), judged: AtomicU64::new(0) }
    }

    /// A change of one thing of a slot, by writing a file.
    fn change<T: Copy + PartialEq>(
        &self,
        slot: usize,
        of: impl Fn(&mut Truth) -> &mut Past<T>,
        value: T,
        write: impl FnOnce(),
    ) {
        let note = |value| {
            let written = Written { value, from: Instant::now(), until: None };
            of(&mut self.slots[slot].lock().unwrap()).0.push(written);
        };
        let is_new = of(&mut self.slots[slot].lock().unwrap()).0.last().is_none_or(|last| last.value != value);
        if is_new {
            note(value);
        }
        write();
        if is_new && let [.., before, _] = &mut *of(&mut self.slots[slot].lock().unwrap()).0 {
            before.until = Some(Instant::now());
        }
    }

    /// The answers that a request may get that was sent then and is answered now.
    fn possible(&self, slot: usize, sent: Instant) -> Vec<String> {
        let (kills, answered) = (self.kills.lock().unwrap().clone(), Instant::now());
        let truth = self.slots[slot].lock().unwrap();
        let routes: Vec<bool> = truth.has_route.values(sent, answered, &kills).collect();
        let name = |backend| format!("s{slot}{}", BACKENDS[backend]);
        let mut bodies: Vec<String> = truth.backend.values(sent, answered, &kills).map(name).collect();
        if !routes.contains(&true) {
            bodies.clear();
        }
        bodies.extend(routes.contains(&false).then(|| "404".to_owned()));
        bodies.sort();
        bodies.dedup();
        bodies
    }

    fn is_right(&self, slot: usize, sent: Instant, answer: &str) -> bool {
        let possible = self.possible(slot, sent);
        self.judged.fetch_add(1, Ordering::Relaxed);
        if possible.len() == 1 {
            self.exact[usize::from(answer == "404")].fetch_add(1, Ordering::Relaxed);
        }
        possible.iter().any(|one| one == answer)
    }

    /// Nothing of what was before may be answered any more.
    fn are_settled(&self) -> bool {
        (0..SLOTS).all(|slot| self.possible(slot, Instant::now()).len() == 1)
    }
}

/// The names of the backends of a slot, behind its own.
const BACKENDS: [&str; 3] = ["a", "b", "c"];

/// Something that is there or not, and the change that it is so since.
#[derive(Clone, Copy, Default)]
struct Switch {
    on: bool,
    since: usize,
}

impl Switch {
    fn turn(&mut self, at: usize) {
        *self = Self { on: !self.on, since: at };
    }

    fn is_settled(self, at: usize) -> bool {
        at >= self.since + APART
    }
}

/// A service with the route that names it.
#[derive(Clone, Copy, Default)]
struct Slot {
    service: Switch,
    route: Switch,
    backend: usize,
}

/// Ports of listeners: two that stay, two that come and go, and one of a Gateway that does.
struct Ports {
    http: u16,
    https: u16,
    more: u16,
    more_tls: u16,
    other: u16,
}

/// Envoys that Chancery does not start: one for each Gateway, as long as it is there.
struct Far {
    place: TempDir,
    xds: u16,
    server: Pair,
    /// Of the Gateways `edge` and `other`.
    clients: [Pair; 2],
    envoys: [Option<Elsewhere>; 2],
}

const GATEWAYS: [&str; 2] = ["edge", "other"];

impl Far {
    fn new() -> Self {
        let [xds] = free_ports().unwrap();
        let pair = |name: &str| self_signed(&[name], false).unwrap();
        let clients = GATEWAYS.map(|name| pair(&format!("{name}.default")));
        let place = TempDir::new().unwrap();
        GATEWAYS.iter().for_each(|name| std::fs::create_dir(place.path().join(name)).unwrap());
        Self { place, xds, server: pair("chancery.example"), clients, envoys: [None, None] }
    }

    /// A Chancery that serves them.
    fn prepare(&self) -> Running {
        let authorities: String = self.clients.iter().map(|pair| &*pair.certificate).collect();
        let Pair { certificate, key } = &self.server;
        for (name, text) in [("tls.crt", certificate), ("tls.key", key), ("ca.crt", &authorities)] {
            std::fs::write(self.place.path().join(name), text).unwrap();
        }
        server(self.place.path(), self.xds).unwrap()
    }

    /// Starts or ends that of a Gateway.
    fn turn(&mut self, index: usize, on: bool) {
        let (name, own, trusted) = (GATEWAYS[index], &self.clients[index], [&self.server]);
        let gateway = format!("default/{name}");
        let way = Way { gateway: &gateway, api: "GRPC", port: self.xds, own, trusted: &trusted };
        self.envoys[index] = on.then(|| Elsewhere::start(&self.place.path().join(name), &way).unwrap());
    }
}

/// The folder, and what is in it.
struct Churn {
    running: Running,
    far: Option<Far>,
    ports: Ports,
    /// Of what stays.
    backends: [Backend; 2],
    /// Of each slot, so that a request that goes to another slot is answered wrong.
    own: [[Backend; 3]; SLOTS],
    pairs: [Pair; 2],
    random: fastrand::Rng,
    slots: [Slot; SLOTS],
    more: Switch,
    more_tls: Switch,
    more_certificate: Switch,
    other: Switch,
    flip: usize,
    shown: usize,
    /// So many changes pass from one kill to the next.
    quarter: usize,
    truths: Arc<Truths>,
    /// How many files were written or removed.
    writes: Cell<usize>,
}

impl Churn {
    fn new(seed: u64, far: Option<Far>) -> Self {
        let [http, https, more, more_tls, other] = free_ports().unwrap();
        let backend = |name: &str| Backend::start(name).unwrap();
        let pair = || self_signed(&["x.example"], false).unwrap();
        let on = Switch { on: true, since: 0 };
        let churn = Self {
            running: far.as_ref().map_or_else(|| Running::prepare().unwrap(), Far::prepare),
            far,
            ports: Ports { http, https, more, more_tls, other },
            backends: ["one", "two"].map(backend),
            own: std::array::from_fn(|slot| BACKENDS.map(|name| backend(&format!("s{slot}{name}")))),
            pairs: [pair(), pair()],
            random: fastrand::Rng::with_seed(seed),
            slots: [Slot { service: on, route: on, backend: 0 }; SLOTS],
            more: Switch::default(),
            more_tls: Switch::default(),
            more_certificate: Switch::default(),
            other: Switch::default(),
            flip: 0,
            shown: 0,
            quarter: (changes() / (KILLS + 1)).max(1),
            truths: Arc::new(Truths::new()),
            writes: Cell::new(0),
        };
        for Backend { name, port, .. } in &churn.backends {
            churn.write(&format!("{name}.yaml"), &service(name, *port));
        }
        for (index, backends) in churn.own.iter().enumerate() {
            let name = format!("s{index}");
            churn.write(&format!("{name}.yaml"), &service(&name, backends[0].port));
            churn.write(&format!("{name}-route.yaml"), &route(&name, &[(&*format!("/{name}"), &*name)]));
        }
        churn.write_gateway();
        churn.write_steady();
        churn.write_certificate("cert", churn.shown);
        churn
    }

    fn write(&self, file: &str, text: &str) {
        self.writes.set(self.writes.get() + 1);
        self.running.write(file, text).unwrap();
    }

    fn remove(&self, file: &str) {
        self.writes.set(self.writes.get() + 1);
        self.running.remove(file).unwrap();
    }

    fn write_gateway(&self) {
        let Ports { http, https, more, more_tls, .. } = self.ports;
        let cleartext = |name, port| format!("  - name: {name}\n    protocol: HTTP\n    port: {port}\n");
        let tls = |name, port, secret| {
            let reference = format!("tls:\n      certificateRefs:\n      - name: {secret}\n");
            format!("  - name: {name}\n    protocol: HTTPS\n    port: {port}\n    {reference}")
        };
        let mut all = cleartext("http", http) + &tls("https", https, "cert");
        if self.more.on {
            all += &cleartext("more", more);
        }
        if self.more_tls.on {
            all += &tls("more-tls", more_tls, "more");
        }
        self.write("gateway.yaml", &listeners(&all));
    }

    fn write_steady(&self) {
        let flip = ("/flip", ["one", "two"][self.flip]);
        let steady = ("/steady", "one");
        let rules = if self.flip == 0 { [flip, steady] } else { [steady, flip] };
        self.write("steady.yaml", &route("steady", &rules));
    }

    fn write_certificate(&self, name: &str, which: usize) {
        let Pair { certificate, key } = &self.pairs[which];
        self.write(&format!("{name}-secret.yaml"), &tls_secret(name, certificate, key));
    }

    fn write_slot_route(&mut self, index: usize) {
        let (path, name) = (format!("/s{index}"), format!("s{index}"));
        let more = format!("/x{}", self.random.u8(..));
        let text = route(&name, &[(&*path, &*name), (&*more, "one")]);
        let write = || self.write(&format!("s{index}-route.yaml"), &text);
        self.truths.change(index, |truth| &mut truth.has_route, true, write);
    }

    /// Change number `at`: of one file.
    fn change(&mut self, at: usize) {
        match at % 50 {
            0 | 25 => self.change_listeners(at),
            7 | 17 | 27 | 37 | 47 => {
                self.shown = 1 - self.shown;
                self.write_certificate("cert", self.shown);
            }
            3 | 23 | 43 => {
                self.flip = 1 - self.flip;
                self.write_steady();
            }
            // a Gateway, and with it a client of xDS, comes or goes once a second: it is back before all of its proxies are gone
            33 => self.change_gateways(at),
            _ => self.change_slot(at),
        }
    }

    fn change_listeners(&mut self, at: usize) {
        match self.random.u8(..4) {
            0 if self.more_tls.on && self.more_tls.is_settled(at) => self.more_tls.turn(at),
            0 | 1 if !self.more_certificate.on && self.more_tls.is_settled(at) => {
                self.more_certificate.turn(at);
                return self.write_certificate("more", 0);
            }
            1 if self.more_certificate.on && !self.more_tls.on && self.more_tls.is_settled(at) => {
                self.more_certificate.turn(at);
                return self.remove("more-secret.yaml");
            }
            2 if !self.more_tls.on && self.more_certificate.on && self.more_certificate.is_settled(at) => {
                self.more_tls.turn(at);
            }
            _ => self.more.turn(at),
        }
        self.write_gateway();
    }

    fn change_gateways(&mut self, at: usize) {
        self.other.turn(at);
        if let Some(far) = &mut self.far {
            far.turn(1, self.other.on);
        }
        if !self.other.on {
            return self.remove("other.yaml");
        }
        let other = listeners(&format!("  - name: http\n    protocol: HTTP\n    port: {}\n", self.ports.other));
        let text = documents([&*other, &*route("other", &[("/steady", "one")])]);
        self.write("other.yaml", &text.replace("name: edge", "name: other"));
    }

    fn change_slot(&mut self, at: usize) {
        // the halves rest by turns, from well before Chancery is killed until well after
        let resting = (at + self.quarter * 3 / 5) / self.quarter;
        let index = self.random.usize(..SLOTS / 2) * 2 + resting % 2;
        let Slot { service: has_service, route: has_route, .. } = self.slots[index];
        if !has_service.on || !has_route.on {
            if !has_service.on && has_route.is_settled(at) {
                self.slots[index].service.turn(at);
                self.write_slot_service(index);
            } else if has_service.on && has_service.is_settled(at) && self.random.u8(..4) > 0 {
                self.slots[index].route.turn(at);
                self.write_slot_route(index);
            } else if has_service.on && has_route.is_settled(at) && has_service.is_settled(at) {
                self.slots[index].service.turn(at);
                self.remove(&format!("s{index}.yaml"));
            } else {
                self.write_slot_service_or_steady(index);
            }
            return;
        }
        match self.random.u8(..8) {
            0 if has_route.is_settled(at) => {
                self.slots[index].route.turn(at);
                let remove = || self.remove(&format!("s{index}-route.yaml"));
                self.truths.change(index, |truth| &mut truth.has_route, false, remove);
            }
            0..=3 => self.write_slot_route(index),
            _ => self.write_slot_service(index),
        }
    }

    fn write_slot_service_or_steady(&mut self, index: usize) {
        if self.slots[index].service.on {
            self.write_slot_service(index);
        } else {
            self.write_steady();
        }
    }

    /// The service gets another endpoint.
    fn write_slot_service(&mut self, index: usize) {
        let backend = self.random.usize(..self.own[index].len());
        self.slots[index].backend = backend;
        let text = service(&format!("s{index}"), self.own[index][backend].port);
        self.truths.change(index, |truth| &mut truth.backend, backend, || self.write(&format!("s{index}.yaml"), &text));
    }

    /// What was written last is what is served.
    fn wait_until_served(&self) {
        let until = |port: u16, path: &str, wanted: Option<&str>| {
            let is_it = |answer: &Answer| match wanted {
                Some(body) => answer.status == 200 && answer.body == body,
                None => answer.status == 404,
            };
            wait::until(&format!("{wanted:?} at {path}"), || get(port, "x.example", path).ok().filter(is_it)).unwrap();
        };
        for (index, slot) in self.slots.iter().enumerate() {
            let wanted = slot.route.on.then(|| &*self.own[index][slot.backend].name);
            until(self.ports.http, &format!("/s{index}"), wanted);
        }
        until(self.ports.http, "/flip", Some(["one", "two"][self.flip]));
        let listeners =
            [(self.more, self.ports.more), (self.more_tls, self.ports.more_tls), (self.other, self.ports.other)];
        for (switch, port) in listeners {
            if !switch.on {
                wait::until("the port to be closed", || get(port, "x.example", "/").is_err().then_some(())).unwrap();
            } else if port != self.ports.more_tls {
                until(port, "/steady", Some("one"));
            }
        }
        let certificates = [&*self.pairs[0].certificate, &*self.pairs[1].certificate];
        let shown = || get_tls(self.ports.https, "x.example", "/steady", &certificates).ok();
        wait::until("the certificate", || shown().filter(|(_, which)| *which == self.shown)).unwrap();
        let more = || get_tls(self.ports.more_tls, "x.example", "/steady", &certificates).ok();
        if self.more_tls.on {
            wait::until("the second certificate", || {
                more().filter(|(answer, which)| (answer.status, *which) == (200, 0))
            })
            .unwrap();
        }
    }

    /// As nothing changes any more, each slot has one answer, on each listener, however often it is asked.
    fn check_exactly(&self) {
        wait::until("all to be settled", || self.truths.are_settled().then_some(())).unwrap();
        let certificates = [&*self.pairs[0].certificate, &*self.pairs[1].certificate];
        for _ in 0..20 {
            for (index, slot) in self.slots.iter().enumerate() {
                let path = format!("/s{index}");
                let wanted = if slot.route.on { &*self.own[index][slot.backend].name } else { "404" };
                let answers = [
                    get(self.ports.http, "x.example", &path),
                    get_tls(self.ports.https, "x.example", &path, &certificates).map(|(answer, _)| answer),
                ];
                answers.iter().for_each(|answer| assert_eq!(body(answer), Some(wanted), "{path}: {answer:?}"));
            }
        }
    }
}

#[test]
fn no_answer_is_wrong_while_everything_changes_fifty_times_a_second_and_chancery_is_killed() {
    changes_cost_no_answer(None);
}

#[test]
fn nor_are_those_of_proxies_elsewhere_that_are_told_the_state_of_the_world() {
    changes_cost_no_answer(Some(Far::new()));
}

fn changes_cost_no_answer(far: Option<Far>) {
    let seed = fastrand::u64(..);
    let mut churn = Churn::new(seed, far);
    churn.running.start().unwrap();
    if let Some(far) = &mut churn.far {
        far.turn(0, true);
    }
    churn.wait_until_served();
    let prober = Prober::default();
    let pairs = churn.pairs.clone();
    let certificates = [&*pairs[0].certificate, &*pairs[1].certificate];
    let Ports { http, https, more, more_tls, other } = churn.ports;
    let stay: [Allowed<'_>; 2] = [("/steady", &["one"]), ("/flip", &["one", "two"])];
    let paths: Vec<String> = (0..SLOTS).map(|index| format!("/s{index}")).collect();
    let paths: Vec<&str> = stay.iter().map(|(path, _)| *path).chain(paths.iter().map(|path| &**path)).collect();
    let truths = Arc::clone(&churn.truths);
    let is_right = |path: &str, sent: Instant, answer: &anyhow::Result<Answer>| {
        let Some(answer) = body(answer) else { return false };
        match path.strip_prefix("/s").and_then(|slot| slot.parse().ok()) {
            Some(slot) => truths.is_right(slot, sent, answer),
            None => stay.iter().any(|(one, bodies)| *one == path && bodies.contains(&answer)),
        }
    };
    // the query tells which it was
    let perhaps = |path| -> [Allowed<'_>; 1] { [(path, &["one", "down"])] };
    let total = changes();
    let before = churn.writes.get();
    let began = Instant::now();
    std::thread::scope(|scope| {
        let _asking = prober.until_dropped();
        scope.spawn(|| prober.run_judged(|path| get(http, "x.example", path), &paths, is_right));
        scope.spawn(|| prober.run(|path| Ok(get_tls(https, "x.example", path, &certificates)?.0), &stay));
        scope.spawn(|| prober.run_judged(over_kept_tls(https, &certificates), &paths, is_right));
        scope.spawn(|| prober.run(|path| get(more, "x.example", path), &perhaps("/steady?more")));
        scope.spawn(|| {
            prober.run(|path| Ok(get_tls(more_tls, "x.example", path, &certificates)?.0), &perhaps("/steady?more_tls"))
        });
        scope.spawn(|| prober.run(|path| get(other, "x.example", path), &perhaps("/steady?other")));
        for at in 1..=total {
            if at.is_multiple_of(churn.quarter) && at / churn.quarter <= KILLS {
                // the next one starts while changes go on
                churn.running.kill_chancery().unwrap();
                truths.kills.lock().unwrap().push(Instant::now());
                churn.running.begin().unwrap();
            }
            churn.change(at);
            std::thread::sleep((PACE * u32::try_from(at).unwrap()).saturating_sub(began.elapsed()));
        }
        let (took, made) = (began.elapsed(), churn.writes.get() - before);
        churn.running.until_ready().unwrap();
        churn.wait_until_served();
        churn.check_exactly();
        // the test's own pace, so that it shows what it says
        assert_eq!((made, truths.kills.lock().unwrap().len()), (total, KILLS));
        assert!(took <= PACE * u32::try_from(total).unwrap() * 3 / 2, "{total} changes in {took:?}");
    });
    let (asked, wrong) = prober.told();
    assert!(wrong.is_empty(), "{asked} requests, seed {seed}, wrong: {wrong:#?}");
    assert!(asked > 1000, "{asked} requests");
    let [backends, none] = truths.exact.each_ref().map(|count| count.load(Ordering::Relaxed));
    let judged = truths.judged.load(Ordering::Relaxed);
    // half of the slots rest, and they are settled half of that time
    let enough = (backends + none) * 5 > judged && backends * 10 > judged;
    assert!(enough, "{backends} and {none} of {judged} answers had to be exact");
}

//! What is asked itself changes, from any scene to any other: each answer is that of before or of after, and once all have been answered as
//! after, nobody is answered as before.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tests::backend::Backend;
use tests::certificate::self_signed;
use tests::client::{Answer, get, get_tls};
use tests::datagrams::{Echo, paced};
use tests::grpc::GrpcBackend;
use tests::objects::documents;
use tests::ports::free_ports;
use tests::running::Running;
use tests::wait;

use crate::lines::called;
use crate::scenes::{ASKED, Places, Scene, Who};

/// So many right answers in a row, each to a client of its own, show that every thread of a proxy has what is new.
const IN_A_ROW: usize = 12;

/// So often each scene comes, each time behind another one; by hand `ROUNDS=10`, and `SEED` for the same order again.
fn rounds() -> usize {
    number("ROUNDS").unwrap_or(1)
}

fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    std::env::var_os(variable)?.to_str()?.parse().ok()
}

/// Who may have answered when.
struct Spell {
    who: Who,
    from: Instant,
    until: Option<Instant>,
}

struct World {
    running: Running,
    places: Places,
    /// As [`ASKED`].
    past: [Mutex<Vec<Spell>>; 7],
    asked: [AtomicU64; 7],
    /// Which scene was written when.
    story: Mutex<Vec<(Instant, &'static str)>>,
    wrong: Mutex<Vec<String>>,
    over: AtomicBool,
    _servers: ([Backend; 2], [GrpcBackend; 2], [Echo; 2]),
}

impl World {
    fn prepare() -> Self {
        let servers = (
            ["one", "two"].map(|name| Backend::start(name).unwrap()),
            ["call-one", "call-two"].map(|name| GrpcBackend::start(name).unwrap()),
            ["dns-one", "dns-two"].map(|name| Echo::start(name).unwrap()),
        );
        let names = ["secure.example.com", "*.ended.example.com"];
        let pair = |names: &[&str]| self_signed(names, false).unwrap();
        let places = Places {
            ports: free_ports().unwrap(),
            backends: [
                servers.0.each_ref().map(|server| server.port),
                servers.1.each_ref().map(|server| server.port),
                [servers.2[0].port, servers.2[1].port],
            ],
            pairs: [pair(&names), pair(&names)],
            inner: pair(&["*.passed.example.com"]),
        };
        let running = Running::prepare().unwrap();
        running.write("stage.yaml", &documents(places.stage().iter().map(String::as_str))).unwrap();
        Self {
            running,
            places,
            past: Default::default(),
            asked: Default::default(),
            story: Mutex::default(),
            wrong: Mutex::default(),
            over: AtomicBool::new(false),
            _servers: servers,
        }
    }

    fn ask(&self, what: &str) -> anyhow::Result<Answer> {
        let [http, https, tls, tcp, udp, ..] = self.places.ports;
        let [first, second] = &self.places.pairs;
        let known = [&*first.certificate, &second.certificate, &self.places.inner.certificate];
        let over_tls = |port, host| get_tls(port, host, "/", &known).map(|(answer, _)| answer);
        match what {
            "http" => get(http, "x.example.com", "/"),
            "grpc" => called(http, "/a.S/Get"),
            "https" => over_tls(https, "secure.example.com"),
            "passed" => over_tls(tls, "a.passed.example.com"),
            "ended" => over_tls(tls, "a.ended.example.com"),
            "tcp" => get(tcp, "x.example.com", "/"),
            _ => paced(udp),
        }
    }

    /// Asks one until it is over.
    fn probe(&self, index: usize) {
        while !self.over.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(2));
            self.judged(index);
        }
    }

    /// Asks one, and notes an answer that it may not have.
    fn judged(&self, index: usize) -> Who {
        let sent = Instant::now();
        let answer = self.ask(ASKED[index]);
        self.asked[index].fetch_add(1, Ordering::Relaxed);
        let (answered, found) = (Instant::now(), who(&answer));
        let past = self.past[index].lock().unwrap();
        let may = |spell: &&Spell| spell.from <= answered && spell.until.is_none_or(|until| until >= sent);
        let may: Vec<Who> = past.iter().filter(may).map(|spell| spell.who).collect();
        if !may.contains(&found) {
            let told = match answer {
                Ok(Answer { status, body }) => format!("{status} {body}"),
                Err(error) => format!("{error:#}"),
            };
            let story = self.story.lock().unwrap();
            let moment = |at: &Instant| match at.checked_duration_since(sent) {
                Some(later) => format!("{later:?} later"),
                None => format!("{:?} before", sent - *at),
            };
            let first = story.iter().filter(|(at, _)| *at < sent).count().saturating_sub(2);
            let around: Vec<_> = story.iter().skip(first).map(|(at, name)| (name, moment(at))).collect();
            let text = format!("{}: {told}, and only {may:?} may answer; scenes: {around:?}", ASKED[index]);
            self.wrong.lock().unwrap().push(text);
        }
        found
    }

    /// Writes the objects of all scenes, those that say how old they are first, without a Gateway that would serve them: of objects that come together the
    /// first start believes it, and later scenes find them known.
    fn introduce(&self, scenes: &[Scene]) {
        let all = scenes.iter().flat_map(|scene| &scene.objects).map(String::as_str);
        let mut all: Vec<&str> = all.filter(|text| !text.contains("\nkind: Gateway\n")).collect();
        all.sort_by_key(|text| !text.contains("creationTimestamp"));
        self.running.write("scene.yaml", &documents(all)).unwrap();
    }

    /// Writes a scene; its documents are in any order.
    fn write(&self, scene: &Scene, random: &mut fastrand::Rng) {
        let mut objects: Vec<&str> = scene.objects.iter().map(String::as_str).collect();
        random.shuffle(&mut objects);
        self.story.lock().unwrap().push((Instant::now(), scene.name));
        self.running.write("scene.yaml", &documents(objects)).unwrap();
    }

    /// From now on these may answer too.
    fn begin(&self, scene: &Scene) {
        for (past, who) in self.past.iter().zip(scene.answers) {
            let mut past = past.lock().unwrap();
            if past.last().is_none_or(|last| last.who != who) {
                past.push(Spell { who, from: Instant::now(), until: None });
            }
        }
    }

    /// Waits until these answer, and from then on nobody else may.
    fn settle(&self, scene: &Scene) {
        thread::scope(|threads| {
            for (index, wanted) in scene.answers.iter().enumerate() {
                threads.spawn(move || self.settle_one(scene.name, index, *wanted));
            }
        });
    }

    fn settle_one(&self, scene: &str, index: usize, wanted: Who) {
        let mut in_a_row = 0;
        let settled = wait::until(&format!("{wanted:?} to answer {} in scene {scene:?}", ASKED[index]), || {
            in_a_row = if self.judged(index) == wanted { in_a_row + 1 } else { 0 };
            let enough = if wanted == Who::Nobody && ASKED[index] == "udp" { 1 } else { IN_A_ROW };
            (in_a_row == enough).then_some(())
        });
        settled.unwrap_or_else(|error| panic!("{error}: {}", self.running.status(&["problems"]).unwrap_or_default()));
        if let [before @ .., _] = &mut **self.past[index].lock().unwrap() {
            before.iter_mut().for_each(|spell| spell.until = spell.until.or(Some(Instant::now())));
        }
    }
}

fn who(answer: &anyhow::Result<Answer>) -> Who {
    match answer {
        Ok(Answer { status: 200, body }) if body.ends_with("one") => Who::One,
        Ok(Answer { status: 200, body }) if body.ends_with("two") => Who::Two,
        _ => Who::Nobody,
    }
}

#[test]
fn each_answer_is_that_of_before_or_after_whatever_changes_of_what_is_asked() {
    let seed = number("SEED").unwrap_or_else(|| fastrand::u64(..));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut world = World::prepare();
    let scenes = world.places.scenes();
    let first = scenes.first().unwrap();
    world.introduce(&scenes);
    world.running.start().unwrap();
    world.write(first, &mut random);
    ASKED.iter().zip(first.answers).for_each(|(what, wanted)| {
        wait::until(what, || (who(&world.ask(what)) == wanted).then_some(())).unwrap();
    });
    world.begin(first);
    let mut order: Vec<usize> = Vec::new();
    for _ in 0..rounds() {
        let mut all: Vec<usize> = (0..scenes.len()).collect();
        random.shuffle(&mut all);
        order.extend(all);
    }
    let world = &world;
    thread::scope(|threads| {
        (0..ASKED.len()).for_each(|index| drop(threads.spawn(move || world.probe(index))));
        let _over = Ending(&world.over);
        for index in order {
            let scene = &scenes[index];
            world.begin(scene);
            world.write(scene, &mut random);
            world.settle(scene);
        }
    });
    let asked = world.asked.each_ref().map(|count| count.load(Ordering::Relaxed));
    let wrong = world.wrong.lock().unwrap();
    assert!(wrong.is_empty(), "seed {seed}: {wrong:#?} of {asked:?}");
    assert!(asked.iter().all(|count| *count > 50), "{asked:?}");
}

struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

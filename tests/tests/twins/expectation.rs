//! Lines that say what becomes of a request: `[HOW] VERB PORT HOST/PATH [MORE] -> OUTCOME [SEEN]`.
//!
//! | part | is |
//! |---|---|
//! | HOW | `20x`: so often one after another; `shares`: who answers how many of a hundred, with `v1=70 v2=30` as the outcome; `mirrors`: who gets a copy of how many of a hundred |
//! | VERB | a method of HTTP, `GRPC`, `WS`, `TCP` (HTTP/1.1 over the connection), `TLS` (the same with the host as server name), `UDP` |
//! | PORT | a word of the twin's or a shared one, or a number |
//! | MORE | `name:value` a header, `sni=name` over TLS, `cert=of-a` with a certificate, `h2` over HTTP/2, `at=127.0.0.2` another address |
//! | OUTCOME | `v1` answers; a status; `closed` by the other side once the connection is made, `broken` that or nobody listens, `silent` no datagram; several with `\|` |
//! | SEEN | `asked=yes`, whether the client was asked for a certificate; `path=`, `host=`, `method=`, `version=`, `sni=`, `peer=` as the backend saw it; `name:value` a header that it saw; `<name:value` a header of the answer; `mirrored=v2` who got a copy |
//!
//! A header is absent with `-` for its value. `{word}` is the number of a port, `$new` another number each time, `$self` who answered.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;

use super::ask::{Answer, Ask, Nothing, Speech};
use super::world::World;

/// Requests for a share, so many at a time, as the suite of the Gateway API sends them.
const SHARED_OUT: (u32, u32) = (500, 10);

/// How far a share may be from its number, in hundredths: as in the suite, two standard deviations of requests that go either way: one that is right is looked at again in one of forty cases.
const TOLERANCE: f64 = 5.0;

/// How long a copy may take.
const COPY: Duration = Duration::from_secs(5);

static NEW: AtomicU64 = AtomicU64::new(1);

/// A line, read.
pub(crate) struct Expectation {
    how: How,
    ask: Ask,
    outcome: String,
    seen: Vec<String>,
}

#[derive(Clone, Copy)]
enum How {
    Each(u32),
    Shares,
    Mirrors,
}

impl Expectation {
    /// Whether the line says of more than one request what becomes of it.
    pub(crate) fn is_many(line: &str) -> bool {
        let how = line.split(' ').next().unwrap_or_default();
        ["shares", "mirrors"].contains(&how) || how.ends_with('x')
    }

    /// Panics where a line cannot be understood.
    pub(crate) fn read(line: &str, port: impl Fn(&str) -> Option<u16>) -> Self {
        let line = with_ports(line, &port);
        let (asked, answered) = line.split_once(" -> ").unwrap_or_else(|| panic!("{line}: no outcome"));
        let mut words = asked.split_whitespace().peekable();
        let first = words.peek().copied().unwrap_or_default();
        let how = match first {
            "shares" => How::Shares,
            "mirrors" => How::Mirrors,
            times if times.ends_with('x') => How::Each(times.trim_end_matches('x').parse().unwrap()),
            _ => How::Each(1),
        };
        if !matches!(how, How::Each(1)) {
            words.next();
        }
        let verb = words.next().unwrap();
        let at = words.next().unwrap();
        let port = port(at).or_else(|| at.parse().ok()).unwrap_or_else(|| panic!("{line}: no port {at}"));
        let ask = ask(verb, port, words);
        let mut answered = answered.split_whitespace().map(str::to_owned);
        let is_list = matches!(how, How::Shares | How::Mirrors);
        let outcome = if is_list { String::new() } else { answered.next().unwrap() };
        Self { how, ask, outcome, seen: answered.collect() }
    }

    /// Whether it holds now; else what is wrong.
    pub(crate) async fn check(&self, world: &World) -> Result<(), String> {
        match self.how {
            How::Each(times) => {
                for _ in 0..times {
                    self.each(world).await?;
                }
                Ok(())
            }
            How::Shares => self.shares(world).await,
            How::Mirrors => self.mirrors(world).await,
        }
    }

    async fn each(&self, world: &World) -> Result<(), String> {
        let mut ask = renewed(&self.ask);
        let mirrored = self.seen.iter().find_map(|word| word.strip_prefix("mirrored="));
        let id = NEW.fetch_add(1, Ordering::Relaxed).to_string();
        if mirrored.is_some() {
            ask.path += &format!("?mirror={id}");
        }
        let answer = ask.once(&world.certificates).await;
        let said = match &answer {
            Ok(answer) => format!("{} {:?} {}", answer.status, answer.headers, answer.told),
            Err(Nothing::Ended(why)) => format!("the connection ended: {why}"),
            Err(nothing) => format!("{nothing:?}"),
        };
        let outcome = self.outcome.split('|').any(|word| is_outcome(word, self.ask.speech, &answer));
        if !outcome {
            return Err(said);
        }
        if let Some(wrong) = self.seen.iter().find(|word| !answer.as_ref().is_ok_and(|answer| is_seen(word, answer))) {
            return Err(format!("not {wrong}: {said}"));
        }
        for name in mirrored.into_iter().flat_map(|names| names.split(',')) {
            let arrived = until_mirrored(world, name, std::slice::from_ref(&id), 1).await;
            (arrived == 1).then_some(()).ok_or_else(|| format!("{arrived} copies at {name}"))?;
        }
        Ok(())
    }

    async fn shares(&self, world: &World) -> Result<(), String> {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for answer in many(&self.ask, world).await.into_iter().map(|(_, answer)| answer) {
            let name = answer.ok().and_then(|answer| Some(answer.told["backend"].as_str()?.to_owned()));
            *counts.entry(name.unwrap_or_else(|| "none".into())).or_default() += 1;
        }
        let wanted: BTreeMap<&str, f64> = self.seen.iter().map(|word| share(word)).collect();
        let right = |name: &str| is_share(counts.get(name).copied().unwrap_or_default(), wanted.get(name).copied());
        let all = counts.keys().map(String::as_str).chain(wanted.keys().copied()).all(right);
        all.then_some(()).ok_or_else(|| format!("{counts:?}"))
    }

    async fn mirrors(&self, world: &World) -> Result<(), String> {
        let mut ask = self.ask.clone();
        ask.path += "?mirror=$new";
        let answers = many(&ask, world).await;
        let ids: Vec<String> =
            answers.iter().filter_map(|(ask, _)| Some(ask.path.split_once("mirror=")?.1.to_owned())).collect();
        for (name, wanted) in self.seen.iter().map(|word| share(word)) {
            let enough = f64::from(SHARED_OUT.0) * (wanted - TOLERANCE).max(0.0) / 100.0;
            let count = until_mirrored(world, name, &ids, enough as u64 + 1).await;
            let right = is_share(u32::try_from(count).unwrap_or(u32::MAX), Some(wanted));
            right.then_some(()).ok_or_else(|| format!("{count} copies at {name}"))?;
        }
        Ok(())
    }
}

fn with_ports(line: &str, port: impl Fn(&str) -> Option<u16>) -> String {
    let mut parts = line.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (word, rest) = part.split_once('}').unwrap();
        text += &port(word).unwrap_or_else(|| panic!("{line}: no port {word}")).to_string();
        text += rest;
    }
    text
}

fn ask<'a>(verb: &str, port: u16, mut words: impl Iterator<Item = &'a str>) -> Ask {
    let speech = match verb {
        "GRPC" => Speech::Grpc,
        "WS" => Speech::WebSocket,
        "UDP" => Speech::Datagram,
        _ => Speech::Http,
    };
    let method = match verb {
        "GRPC" => "POST",
        "TCP" | "TLS" | "WS" | "UDP" => "GET",
        verb => verb,
    };
    let target = words.next().unwrap_or_default();
    let (host, path) = target.split_at(target.find('/').unwrap_or(target.len()));
    let mut ask = Ask {
        speech,
        method: method.to_owned(),
        address: "127.0.0.1".to_owned(),
        port,
        host: if host.is_empty() { "twin.example" } else { host }.to_owned(),
        path: if path.is_empty() { "/" } else { path }.to_owned(),
        headers: Vec::new(),
        server_name: (verb == "TLS").then(|| host.to_owned()),
        certificate: None,
    };
    for word in words {
        match word.split_once('=') {
            _ if word == "h2" => ask.speech = Speech::Http2,
            Some(("sni", name)) => ask.server_name = Some(name.to_owned()),
            Some(("cert", name)) => ask.certificate = Some(name.to_owned()),
            Some(("at", address)) => address.clone_into(&mut ask.address),
            _ => {
                let (name, value) = word.split_once(':').unwrap_or_else(|| panic!("{word} is no header"));
                ask.headers.push((name.to_owned(), value.to_owned()));
            }
        }
    }
    ask
}

/// The same with numbers of its own.
fn renewed(ask: &Ask) -> Ask {
    let mut ask = ask.clone();
    if ask.path.contains("$new") {
        ask.path = ask.path.replace("$new", &NEW.fetch_add(1, Ordering::Relaxed).to_string());
    }
    ask
}

async fn many(ask: &Ask, world: &World) -> Vec<(Ask, Result<Answer, Nothing>)> {
    let mut tasks = JoinSet::new();
    for _ in 0..SHARED_OUT.1 {
        let (ask, certificates) = (ask.clone(), std::sync::Arc::clone(&world.certificates));
        tasks.spawn(async move {
            let mut answers = Vec::new();
            for _ in 0..SHARED_OUT.0 / SHARED_OUT.1 {
                let ask = renewed(&ask);
                let answer = ask.once(&certificates).await;
                answers.push((ask, answer));
            }
            answers
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

/// How many copies have come, once so many have or no more are to be waited for.
async fn until_mirrored(world: &World, name: &str, ids: &[String], enough: u64) -> u64 {
    let count = || {
        let seen = world.seen.lock().unwrap_or_else(PoisonError::into_inner);
        ids.iter().map(|id| seen.mirrored(name, id)).sum()
    };
    let waiting = async {
        while count() < enough {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let _late = tokio::time::timeout(COPY, waiting).await;
    count()
}

fn share(word: &str) -> (&str, f64) {
    let (name, number) = word.split_once('=').unwrap_or_else(|| panic!("{word} is no share"));
    (name, number.parse().unwrap())
}

fn is_share(count: u32, wanted: Option<f64>) -> bool {
    match wanted {
        None | Some(0.0) => count == 0,
        Some(100.0) => count == SHARED_OUT.0,
        Some(wanted) => (f64::from(count) * 100.0 / f64::from(SHARED_OUT.0) - wanted).abs() <= TOLERANCE,
    }
}

fn is_outcome(word: &str, speech: Speech, answer: &Result<Answer, Nothing>) -> bool {
    match (word, answer) {
        ("closed", answer) => matches!(answer, Err(Nothing::Ended(_))),
        ("broken", answer) => matches!(answer, Err(Nothing::Ended(_) | Nothing::Refused)),
        ("silent", answer) => matches!(answer, Err(Nothing::Silent)),
        (_, Err(_)) => false,
        (word, Ok(answer)) => match word.parse::<u16>() {
            Ok(status) => answer.status == status,
            Err(_) => {
                let good = match speech {
                    Speech::Grpc => 0,
                    Speech::WebSocket => 101,
                    _ => 200,
                };
                answer.status == good && answer.told["backend"] == word
            }
        },
    }
}

fn is_seen(word: &str, answer: &Answer) -> bool {
    let told = &answer.told;
    let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    match word.split_once('=') {
        Some(("mirrored", _)) => return true,
        Some(("asked", wanted)) => return answer.is_asked == (wanted == "yes"),
        Some((key @ ("path" | "host" | "method" | "version"), wanted)) => return text(&told[key]) == wanted,
        Some((key @ ("sni" | "peer"), wanted)) => return text(&told["tls"][key]) == wanted,
        _ => {}
    }
    let (name, wanted) = word.split_once(':').unwrap_or_else(|| panic!("{word} is nothing that can be seen"));
    let found = match name.strip_prefix('<') {
        Some(name) => answer.headers.get(name).cloned(),
        None => told["headers"][name].as_str().map(str::to_owned),
    };
    let Some(found) = found else { return wanted == "-" };
    // Lists are written with spaces or without.
    let found = found.replace(", ", ",");
    wanted.split('|').any(|wanted| found == if wanted == "$self" { text(&told["backend"]) } else { wanted.to_owned() })
}

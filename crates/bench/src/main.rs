//! Benchmarks: `bench [NAME ...]` prints one JSON line per figure to standard output and everything else to standard error.
//!
//! | name | measures |
//! |---|---|
//! | B1 | cold start from YAML: to the last byte for a scripted client, and to a live Envoy |
//! | B2 | one route changed in a file: event to bytes on the socket, and CPU |
//! | B2e | the same until a request through Envoy sees it |
//! | B3 | a circuit breaker changed in a file until Envoy obeys it |
//! | B4 | endpoints change for 1,000 and 5,000 clients of the xDS server |
//! | B5 | 1,000 and 10,000 clients come again after the server was killed |
//! | B6 | resident memory |
//! | B6c | resident memory of the xDS server for each client |
//! | B7 | CPU while nothing changes |
//! | B8 | one change at 10,000 clusters in both variants, with a real Envoy |
//! | B9 | translation from scratch, Envoy bytes included |
//! | mix | B1, B2, B6 and B9 with a mix of all kinds |
//! | B10 | one load report of 100 clusters in 3 localities, to the xDS server |
//! | hostile | one route changes while files that are costly to read are written next to it; the memory that these take |
//! | last-good | the last good configuration on disk: one changed route, and a start from the file |
//! | clients | nothing: fails where the scripted clients of the others do not get what Chancery serves |
//! | graph | one change of each kind in the real gateway graph |
//! | sets | the same among 2,500 `ListenerSet`s of one Gateway |
//! | workloads | one of 10,000 raw resources changes for 10 of 1,000 workloads: event to bytes on their sockets, and CPU |
//! | kubernetes | following an API server: an event of no interest, 50,000 routes, 1,000 Secrets one by one |
//! | reading | 10,000 files, one object, and `translate` on 1,000 routes |
//! | raw | one raw listener from text to checked bytes; the memory of the descriptors |

mod ads;
mod baseline;
mod certificates;
mod child;
mod clients;
mod cold_start;
mod crowd;
mod dataset;
mod endpoints;
mod fan_out;
mod figure;
mod graph;
mod hostile;
mod idle;
mod kubernetes;
mod last_good;
mod load_reports;
mod memory;
mod mix;
mod one_change;
mod process;
mod raw;
mod reading;
mod reconnect;
mod subject;
mod through_envoy;
mod variants;
mod workloads;
mod world;

use std::os::unix::process::parent_id;
use std::process::ExitCode;

use figure::Report;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// One benchmark: its name and what runs it.
type Benchmark = (&'static str, fn(&mut Report) -> anyhow::Result<()>);

/// All benchmarks, in the order in which they run.
const BENCHMARKS: [Benchmark; 22] = [
    ("clients", clients::run),
    ("B9", graph::from_scratch),
    ("graph", graph::changes),
    ("sets", graph::listener_sets),
    ("reading", reading::run),
    ("raw", raw::run),
    ("workloads", workloads::run),
    ("kubernetes", kubernetes::run),
    ("B1", cold_start::run),
    ("B2", one_change::run),
    ("B2e", through_envoy::route),
    ("B3", through_envoy::circuit_breaker),
    ("B4", fan_out::run),
    ("B5", reconnect::run),
    ("B6", memory::run),
    ("B6c", idle::memory),
    ("B7", idle::cpu),
    ("B8", variants::run),
    ("mix", mix::run),
    ("B10", load_reports::run),
    ("last-good", last_good::run),
    ("hostile", hostile::run),
];

/// A part of a benchmark that is a process of its own.
type Part = fn(&[String]) -> anyhow::Result<()>;

/// All parts, by the first word of their command lines.
const PARTS: [(&str, Part); 6] = [
    ("awake", stay_awake),
    (crowd::VERB, crowd::run),
    (subject::VERB, subject::run),
    (kubernetes::FOLLOWER, kubernetes::follow),
    (kubernetes::SERVER, kubernetes::serve),
    (raw::VERB, raw::load),
];

/// Keeps a core from going idle as long as its parent is there: the core of a guest that goes idle is given to others, and comes back cold.
fn stay_awake(_: &[String]) -> anyhow::Result<()> {
    let parent = parent_id();
    while parent_id() == parent {
        for _ in 0..1_000_000 {
            std::hint::spin_loop();
        }
    }
    Ok(())
}

fn part(run: Part, arguments: &[String]) -> ExitCode {
    let result = child::raise_file_limit().and_then(|()| run(arguments));
    let failed = result.inspect_err(|error| figure::say(&format!("{arguments:?}: {error:#}"))).is_err();
    ExitCode::from(u8::from(failed))
}

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let [verb, arguments @ ..] = wanted.as_slice()
        && let Some((_, run)) = PARTS.iter().find(|(known, _)| known == verb)
    {
        return part(*run, arguments);
    }
    let known = |name: &String| BENCHMARKS.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    if let Some(unknown) = wanted.iter().find(|name| !known(name)) {
        let names: Vec<&str> = BENCHMARKS.iter().map(|(name, _)| *name).collect();
        figure::say(&format!("no benchmark {unknown}; there are {}", names.join(", ")));
        return ExitCode::from(2);
    }
    let mut report = Report::default();
    for (name, run) in BENCHMARKS {
        if !wanted.is_empty() && !wanted.iter().any(|one| one.eq_ignore_ascii_case(name)) {
            continue;
        }
        figure::say(&format!("== {name} (load {})", figure::load()));
        if let Err(error) = run(&mut report) {
            figure::say(&format!("{name} failed: {error:#}"));
            report.broken = true;
        }
    }
    ExitCode::from(u8::from(report.broken))
}

//! B4: endpoints change for many clients that subscribe to all of them: 100 pods are replaced, 400 events at 40 in a second.

use std::time::{Duration, Instant};

use prost::Message as _;
use proto::envoy::service::discovery::v3::{DeltaDiscoveryResponse, Resource};
use proto::google::protobuf::Any;

use crate::crowd::Crowd;
use crate::figure::{Report, micros, say};
use crate::subject::Subject;
use crate::{ads, endpoints, memory};

/// Endpoint sets.
const SETS: usize = 1_000;

/// Events.
const EVENTS: u32 = 400;

/// Time between two of them.
const EVERY: Duration = Duration::from_millis(25);

/// Events of which each has arrived everywhere before the next: the baseline would not keep up with more.
const EVENTS_APART: u32 = 8;

/// Clients that get those.
const CLIENTS_APART: usize = 1_000;

const TCP: &str = "tcp:127.0.0.1:0";

/// Prints the figures of B4.
pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    for clients in [1_000, 5_000] {
        say(&format!("B4 n={clients}"));
        churn(report, clients)?;
    }
    say("B4 baseline");
    let mut add = |figure, value| report.figure("B4", figure, CLIENTS_APART, value, None);
    let ours = one_by_one(TCP)?;
    add("cpu_per_client_and_event_apart_us", (micros(ours), "us"));
    let baseline = one_by_one(&format!("baseline:{TCP}"))?;
    add("baseline_cpu_per_client_and_event_apart_us", (micros(baseline), "us"));
    let ratio = ours.div_duration_f64(baseline);
    report.figure("B4", "cpu_to_baseline_ratio", CLIENTS_APART, (ratio, "ratio"), Some(0.1));
    Ok(())
}

/// Events at their pace.
fn churn(report: &mut Report, clients: usize) -> anyhow::Result<()> {
    let mut server = Subject::start(TCP, SETS, 0)?;
    let mut crowd = Crowd::start(&server.address, clients, SETS)?;
    crowd.wait_synced()?;
    crowd.tell("watch")?;
    let (cpu, own, began) = (server.child.cpu()?, crowd.child.cpu()?, Instant::now());
    for event in 0..EVENTS {
        std::thread::sleep((EVERY * event).saturating_sub(began.elapsed()));
        server.event()?;
    }
    let status = crowd.wait_seen(EVENTS)?;
    let (took, cpu, own) = (began.elapsed(), server.child.cpu()? - cpu, crowd.child.cpu()? - own);
    let (all, deliveries) = (clients as f64 * f64::from(EVENTS), status.get("deliveries") as f64);
    let mut add = |figure: &str, value, unit, limit| report.figure("B4", figure, clients, (value, unit), limit);
    add("cpu_per_client_and_event_us", micros(cpu.div_f64(all)), "us", Some(35.0));
    add("cpu_per_delivery_us", micros(cpu.div_f64(deliveries)), "us", None);
    add("cpu_of_clients_per_delivery_us", micros(own.div_f64(deliveries)), "us", None);
    add("deliveries_to_events_ratio", deliveries / all, "ratio", None);
    let bytes = status.get("bytes_in") as f64 / deliveries;
    let set = endpoints::encoded(0, 1).len() as f64;
    add("bytes_to_changed_set_ratio", bytes / set, "ratio", Some(1.1));
    add("bytes_to_least_possible_ratio", bytes / least_message(), "ratio", Some(1.1));
    for (name, figure) in
        [("late_p50", "delivery_ms_p50"), ("late_p99", "delivery_ms_p99"), ("late_max", "delivery_ms_max")]
    {
        add(figure, status.get(name) as f64 / 1e3, "ms", None);
    }
    add("took_s", took.as_secs_f64(), "s", None);
    Ok(())
}

/// The bytes of the shortest message that the protocol has for a changed set: its name, the kind twice, and a version and a nonce of one
/// letter each, with the heads of gRPC (5) and of HTTP/2 (9).
fn least_message() -> f64 {
    let body = Any { type_url: ads::ENDPOINTS.to_owned(), value: endpoints::encoded(0, 1).into() };
    let resource =
        Resource { name: endpoints::name(0), version: "1".to_owned(), resource: Some(body), ..Resource::default() };
    let message = DeltaDiscoveryResponse {
        resources: vec![resource],
        type_url: ads::ENDPOINTS.to_owned(),
        nonce: "1".to_owned(),
        ..DeltaDiscoveryResponse::default()
    };
    (message.encoded_len() + 5 + 9) as f64
}

/// Changes that have each arrived everywhere before the next. Gives the server's CPU time per client and change.
fn one_by_one(address: &str) -> anyhow::Result<Duration> {
    let mut server = Subject::start(address, SETS, 0)?;
    let mut crowd = Crowd::start(&server.address, CLIENTS_APART, SETS)?;
    crowd.wait_synced()?;
    crowd.tell("watch")?;
    // the last acknowledgements of what came before are no part of it
    memory::steady(|| server.child.resident(), || server.child.cpu())?;
    let cpu = server.child.cpu()?;
    for event in 1..=EVENTS_APART {
        server.event()?;
        crowd.wait_seen(event)?;
    }
    Ok((server.child.cpu()? - cpu) / u32::try_from(CLIENTS_APART)? / EVENTS_APART)
}

//! Any messages in any order to an xDS client: no panic, it holds only what it asked for, and it is never busy with nothing.

use std::time::Duration;

use arbitrary::{Result, Unstructured};
use xds::TypeUrl;
use xds::client::load::Reporter;
use xds::client::{Action, Client, ClientNode, Config, Frames, LinkId, Saved, Variant};

/// Steps of a history.
const STEPS: usize = 64;

/// What one step may make a client do: each kind on each of its two streams, twice, and a connection each.
const MOST_ACTIONS: usize = 64;

const KINDS: [TypeUrl; 4] = [TypeUrl::Cluster, TypeUrl::Endpoints, TypeUrl::Listener, TypeUrl::Route];
const NAMES: [&str; 5] = ["*", "a", "b", "xdstp://a/b/*", "xdstp://a/b/c"];

/// One input.
pub fn run(data: &[u8]) {
    let mut source = Unstructured::new(data);
    let _ = history(&mut source);
}

fn history(source: &mut Unstructured<'_>) -> Result<()> {
    let variant = *source.choose(&[Variant::Delta, Variant::Sotw])?;
    let mut config = Config::new(ClientNode::default(), vec!["one".into(), "two".into()], 1);
    (config.variant, config.ttl, config.shared_versions) = (variant, source.arbitrary()?, source.arbitrary()?);
    let mut client = Client::new(config);
    let mut reporter = Reporter::new(&ClientNode::default());
    let mut frames = Frames::default();
    let (mut now, mut links) = (Duration::ZERO, 1);
    for _ in 0..STEPS {
        if source.is_empty() {
            break;
        }
        let link = source.choose_index(links + 1)? as u64;
        let kind = source.choose(&KINDS)?;
        match source.int_in_range(0..=9)? {
            0 => client.subscribe(kind, [*source.choose(&NAMES)?]),
            1 => client.unsubscribe(kind, [*source.choose(&NAMES)?]),
            2 => client.connected(LinkId::new(link), now),
            3 => client.ended(LinkId::new(link), "broken", now),
            4 => {
                now += Duration::from_millis(source.int_in_range(0..=40_000)?);
                client.pass_time(now);
            }
            5 => {
                let length = source.int_in_range(0..=200)?;
                let bytes = source.bytes(length.min(source.len()))?.to_vec().into();
                if let Ok(saved) = Saved::decode(&bytes) {
                    client.restore(saved, &mut |_| Ok(()));
                }
                let _ = reporter.received(bytes, now);
                let _ = reporter.due(now);
            }
            6 => {
                let length = source.int_in_range(0..=200)?;
                frames.push(source.bytes(length.min(source.len()))?);
                while let Ok(Some(message)) = frames.next_message() {
                    client.received(LinkId::new(link), message, now, &mut |_| Ok(()));
                }
            }
            _ => {
                let message = response(source, variant, kind)?;
                client.received(LinkId::new(link), message.into(), now, &mut |offer| {
                    if offer.body.ends_with(b"!") { Err("no".into()) } else { Ok(()) }
                });
            }
        }
        links = settle(&mut client, now, links);
    }
    let saved = client.save(true);
    assert!(Saved::decode(&saved).is_ok(), "what is saved can be read");
    Ok(())
}

/// Lets the client do what it wants; gives the highest number of a stream.
fn settle(client: &mut Client, now: Duration, mut links: usize) -> usize {
    let mut actions = 0;
    while let Some(action) = client.next_action(now) {
        links += usize::from(matches!(action, Action::Connect { .. }));
        actions += 1;
        assert!(actions < MOST_ACTIONS, "it never comes to rest");
    }
    while client.next_event().is_some() {}
    client.pass_time(now);
    assert!(client.next_deadline().is_none_or(|at| at > now), "what is due is done");
    links
}

/// A response of names from a small set.
fn response(source: &mut Unstructured<'_>, variant: Variant, kind: &TypeUrl) -> Result<Vec<u8>> {
    let mut message = field(4, kind.as_str().as_bytes());
    message.extend(field(5, source.choose(&["", "1", "2"])?.as_bytes()));
    for _ in 0..source.int_in_range(0..=4)? {
        let (name, bytes): (&str, u8) = (source.choose(&NAMES)?, source.arbitrary()?);
        let mut body = field(1, name.as_bytes());
        body.extend(field(9, &[bytes]));
        body.extend(source.choose(&[&b""[..], b"!"])?.iter());
        let any = [field(1, kind.as_str().as_bytes()), field(2, &body)].concat();
        let mut resource = [field(3, name.as_bytes()), field(1, &[b'0' + bytes % 8])].concat();
        if source.arbitrary()? {
            resource.extend(field(2, &any));
        }
        if source.arbitrary()? {
            resource.extend(field(6, &[8, bytes % 32]));
        }
        match (variant, source.int_in_range(0..=7)?) {
            (Variant::Delta, 0) => message.extend(field(6, name.as_bytes())),
            (Variant::Delta, 1) => message.extend(field(9, &field(1, &field(1, name.as_bytes())))),
            (Variant::Sotw, 0) => message.extend(field(7, &field(1, &field(1, name.as_bytes())))),
            (Variant::Sotw, 1..4) => {
                let wrapper = b"type.googleapis.com/envoy.service.discovery.v3.Resource";
                message.extend(field(2, &[field(1, wrapper), field(2, &resource)].concat()));
            }
            (Variant::Sotw, _) => message.extend(field(2, &any)),
            (Variant::Delta, _) => message.extend(field(2, &resource)),
        }
    }
    Ok(message)
}

/// A field that holds bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut field = vec![number << 3 | 2, (length & 127) as u8 | 128, (length >> 7) as u8];
    field.extend(content);
    field
}

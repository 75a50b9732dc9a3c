//! What else of the server reads bytes from outside, as the fuzzer drives it. There only where something is
//! built for fuzzing, and with the tests, so that what breaks it does not build.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame};
use rustls_pki_types::{CertificateDer, UnixTime};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::calm;
use super::exchange::{Answer, Questions};
use super::gate::{Caller, Peer};
use super::grpc::{Broken, Frames};
use super::streams::{Purpose, SharedClient, Siblings};
use super::{Gate, Identity, Server, health, reflection, status, tls};
use crate::event::Node;
use crate::wire::Variant;
use crate::wire::read::Discovery;
use crate::{FleetUpdate, TypeUrl};

/// The services that answer each request by itself, and a fleet with a client that they can tell of.
pub struct Desk {
    caller: Caller,
    answers: Vec<Answer>,
    _client: Arc<SharedClient>,
}

impl Desk {
    /// Those of a server that has these descriptors. `requests` are what the client says.
    #[must_use]
    pub fn new(
        runtime: &Handle,
        descriptors: &'static [u8],
        requests: Vec<Bytes>,
        update: FleetUpdate,
    ) -> Option<Self> {
        let fleet = Arc::clone(&update.fleet);
        let server = Server::start(runtime, mpsc::channel(1).0);
        server.describe(descriptors);
        server.publish(vec![update]);
        let shared = server.0;
        let node = Node { id: "node".into(), ..Node::default() };
        let purpose = Purpose { variant: Variant::Delta, kind: None };
        let caller = runtime
            .block_on(Gate::of(Arc::clone(&fleet), None, super::Limits::default()).admit_anyone(&Peer::Unix))
            .ok()?;
        let (client, stream) = Siblings::default().client(&shared, &purpose, &caller, fleet, node);
        for request in requests {
            client.receive(&shared, stream, Discovery::decode(Variant::Delta, request).ok()?).ok()?;
            client.advance(&shared).ok()?;
        }
        let answers = vec![
            health::check(Questions::One),
            health::check(Questions::Watch),
            health::list(),
            reflection::answer(Arc::clone(&shared.descriptors)),
            status::answer(shared),
        ];
        Some(Self { caller, answers, _client: client })
    }

    /// The answer of a service, chosen by a number, or the code that its call ends with.
    pub fn ask(&mut self, service: usize, request: Bytes) -> Result<Bytes, i32> {
        let service = service % self.answers.len();
        let answer = self.answers.get_mut(service).ok_or(0)?;
        answer(&self.caller, request).map_err(|Broken(code, _)| code as i32)
    }
}

/// A body that comes in pieces.
struct Pieces(VecDeque<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }
}

/// The messages in a body that comes in these pieces, and the code with which it ends if it is broken.
#[must_use]
pub fn messages(pieces: impl IntoIterator<Item = Bytes>) -> (Vec<Bytes>, Option<i32>) {
    let mut frames = Frames::new(Pieces(pieces.into_iter().collect()));
    let mut messages = Vec::new();
    loop {
        match frames.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Ok(message))) => messages.push(message),
            Poll::Ready(Some(Err(Broken(code, _)))) => return (messages, Some(code as i32)),
            Poll::Ready(None) | Poll::Pending => return (messages, None),
        }
    }
}

/// How many PINGs were found after each of these pieces of what a client sends.
#[must_use]
pub fn pings<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<usize> {
    let mut frames = calm::Frames::new();
    let found = pieces.into_iter().scan(0, |all, piece| {
        *all += frames.see(piece).pings;
        Some(*all)
    });
    found.collect()
}

/// Who calls at a gate, over loopback or with a certificate that an authority gave, and with this header. None: the bytes are no
/// certificate or no header.
#[must_use]
pub fn admit(
    runtime: &Handle,
    gate: &Gate,
    certificate: Option<&[u8]>,
    authorization: Option<&[u8]>,
) -> Option<Result<Identity, i32>> {
    let peer = match certificate {
        Some(bytes) => tls::peer(&CertificateDer::from(bytes), UnixTime::now())?,
        None => Peer::Loopback,
    };
    let mut headers = HeaderMap::new();
    if let Some(bytes) = authorization {
        headers.insert(AUTHORIZATION, HeaderValue::from_bytes(bytes).ok()?);
    }
    let caller = runtime.block_on(gate.admit(&peer, &headers));
    Some(caller.map(|caller| caller.identity().clone()).map_err(|Broken(code, _)| code as i32))
}

/// What may be shown of what a client says about a resource that it refuses.
#[must_use]
pub fn refusal(type_url: &TypeUrl, text: &str) -> Arc<str> {
    crate::redact::refusal(type_url, text)
}

//! One request to an API server, and what its refusals mean.

use std::error::Error;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use tokio::time::timeout;

use crate::kubernetes::Pace;

/// The longest answer that is read as a whole: a page of 500 objects of 512 KB each. What the server refuses is much shorter.
const MAX_ANSWER: usize = 256 << 20;

/// Of an error's text no more than this is shown.
const MAX_TEXT: usize = 500;

/// Time for which a server may ask to wait before that is a problem.
pub(crate) const BUSY: Duration = Duration::from_secs(10);

/// Why something was not had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server cannot be reached, has no answer, or one that nobody understands.
    Away(String),
    /// The server asks to wait (429): as one does that starts, while it reads what it stores, and one that has too much to do.
    Busy(String),
    /// We may not.
    Forbidden(String),
    /// There is no such kind.
    Missing,
    /// The server no longer knows what was since then: all has to be listed again.
    Gone,
    /// Somebody else changed the object in between.
    Conflict,
    /// The server does not understand the question.
    Invalid(String),
    /// Nobody wants to hear of it any more.
    Closed,
}

/// Asks an API server.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) client: Client,
    pub(crate) pace: Pace,
}

impl Caller {
    /// The body of an answer, as soon as it begins.
    pub(crate) async fn begin(&self, request: Request<Vec<u8>>) -> Result<Body, Failure> {
        let asked = timeout(self.pace.answer, self.client.send(request.map(Body::from))).await;
        let answer = asked.map_err(|_| Failure::Away("no answer in time".to_owned()))?;
        let (head, body) = answer.map_err(|error| Failure::Away(causes(&error)))?.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let text = self.read(body).await.unwrap_or_default();
        Err(refusal(head.status, &text))
    }

    /// A whole answer to a question with JSON in it.
    pub(crate) async fn send(&self, method: &'static str, path: &str, body: Vec<u8>) -> Result<Bytes, Failure> {
        let json = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", json);
        self.whole(request.body(body).map_err(|error| Failure::Invalid(error.to_string()))?).await
    }

    /// A whole answer.
    pub(crate) async fn whole(&self, request: Request<Vec<u8>>) -> Result<Bytes, Failure> {
        let body = self.begin(request).await?;
        self.read(body).await
    }

    async fn read(&self, mut body: Body) -> Result<Bytes, Failure> {
        let mut whole = BytesMut::new();
        loop {
            let part = timeout(self.pace.answer, body.frame()).await;
            let frame = match part.map_err(|_| Failure::Away("the answer stops in the middle".to_owned()))? {
                None => return Ok(whole.freeze()),
                Some(frame) => frame.map_err(|error| Failure::Away(causes(&error)))?,
            };
            let Some(data) = frame.data_ref() else { continue };
            if whole.len() + data.len() > MAX_ANSWER {
                return Err(Failure::Away(format!("the answer is longer than {} MB", MAX_ANSWER >> 20)));
            }
            whole.extend_from_slice(data);
        }
    }
}

/// What the server says of a refusal, also in the middle of a watch.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Status {
    code: u16,
    message: Option<String>,
    details: Option<Details>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Details {
    causes: Option<Vec<Cause>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Cause {
    reason: Option<String>,
}

impl Status {
    /// What it means.
    pub(crate) fn failure(self) -> Failure {
        let text = shortened(self.message.as_deref().unwrap_or_default());
        let causes = self.details.and_then(|details| details.causes).unwrap_or_default();
        // Of a server whose state was set back: it does not know our version yet.
        let ahead = causes.iter().any(|cause| cause.reason.as_deref() == Some("ResourceVersionTooLarge"));
        match self.code {
            _ if ahead => Failure::Gone,
            410 => Failure::Gone,
            403 => Failure::Forbidden(text),
            404 => Failure::Missing,
            409 => Failure::Conflict,
            400 | 422 => Failure::Invalid(text),
            429 => Failure::Busy(format!("it answers 429 {text}").trim_end().to_owned()),
            code => Failure::Away(format!("it answers {code} {text}").trim_end().to_owned()),
        }
    }
}

fn refusal(status: StatusCode, text: &[u8]) -> Failure {
    let known = serde_json::from_slice::<Status>(text).unwrap_or_default();
    Status { code: status.as_u16(), ..known }.failure()
}

/// An error with all that it comes from, each text once.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    shortened(&text).to_owned()
}

fn shortened(text: &str) -> String {
    text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or(text).trim().to_owned()
}

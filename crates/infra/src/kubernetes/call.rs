//! Requests to the API server, and what its refusals mean.

use std::error::Error;

use kube::api::{DeleteParams, GetParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::core::Request;
use kube::{Api, Client, Resource as _};
use serde_json::Value;
use tokio::time::timeout;

use super::fields::MANAGER;
use super::pace::Pace;
use super::seen::{ObjectId, Raw, RawData, resource};

/// Of an error's text no more than this is shown.
const MAX_TEXT: usize = 1_000;

/// With what the server begins where a field that is applied has another type, or is no quantity.
const WRONG_TYPE: [&str; 2] = ["failed to create typed patch object", "failed to convert new object"];

/// Why a request came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The server cannot be reached, or cannot answer at the moment.
    Away(String),
    /// Somebody was faster: what was known of the object no longer holds.
    Outdated,
    /// Its namespace is on its way out.
    Terminating,
    /// No, in its words: what is asked for cannot be.
    Invalid(String),
    /// No, in its words: it is not allowed, or does not work here.
    Refused(String),
}

/// Asks the API server.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) client: Client,
    pub(super) pace: Pace,
}

impl Caller {
    fn api(&self, id: &ObjectId) -> Api<Raw> {
        Api::namespaced_with(self.client.clone(), &id.namespace, &resource(id.kind.names()))
    }

    /// An object as it is now; none if there is none.
    pub(super) async fn get(&self, id: &ObjectId) -> Result<Option<Raw>, Failure> {
        self.bounded(self.api(id).get_opt(&id.name)).await
    }

    /// The `data` of a `ConfigMap` with the labels of it; none if there is none. That can be 1 MB of an author.
    pub(super) async fn get_data(&self, id: &ObjectId) -> Result<Option<RawData>, Failure> {
        let path = Raw::url_path(&resource(id.kind.names()), Some(&id.namespace));
        let request = Request::new(path).get(&id.name, &GetParams::default()).map_err(kube::Error::BuildRequest);
        let answer = async {
            match self.client.request(request?).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
                answer => answer.map(Some),
            }
        };
        self.bounded(answer).await
    }

    /// Makes an object what it shall be, and gives what it is then.
    pub(super) async fn apply(&self, id: &ObjectId, object: &Value) -> Result<Raw, Failure> {
        let how = PatchParams::apply(MANAGER).force();
        self.bounded(self.api(id).patch(&id.name, &how, &Patch::Apply(object))).await
    }

    /// Removes an object if it is that very one. What belongs to it goes after it.
    pub(super) async fn delete(&self, id: &ObjectId, uid: &str) -> Result<(), Failure> {
        let how = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        let api = self.api(id);
        let request = async {
            match api.delete(&id.name, &how).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                answer => answer.map(drop),
            }
        };
        self.bounded(request).await
    }

    async fn bounded<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
        match timeout(self.pace.answer, request).await {
            Ok(answer) => answer.map_err(|error| failure(&error)),
            Err(_) => Err(Failure::Away("no answer in time".to_owned())),
        }
    }
}

/// What a failure means.
pub(super) fn failure(error: &kube::Error) -> Failure {
    let kube::Error::Api(status) = error else { return Failure::Away(causes(error)) };
    let mut details = status.details.iter().flat_map(|details| &details.causes);
    let text = shortened(&status.message);
    match status.code {
        403 if details.any(|cause| cause.reason == "NamespaceTerminating") => Failure::Terminating,
        409 => Failure::Outdated,
        400 | 413 | 422 => Failure::Invalid(text),
        // a field of the wrong type is said with 500, as is a webhook that fails
        500 if WRONG_TYPE.iter().any(|words| text.starts_with(words)) => Failure::Invalid(text),
        401 | 403 | 404 | 405 | 415 | 500 => Failure::Refused(text),
        code => Failure::Away(format!("it answers {code} {text}").trim_end().to_owned()),
    }
}

/// An error with all that it comes from, each text once.
pub(super) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    shortened(&text)
}

/// Returns the beginning of a text of an API server. It repeats what users write, line ends too: none of these begins a line of a log or a status.
fn shortened(text: &str) -> String {
    let beginning = text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or(text).trim();
    beginning.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_an_api_server_are_one_line() {
        let text = "unknown field \"zz\n2026-11-27T17:00:00Z  INFO FORGED\u{1b}[2J\u{9b}\r\"\n";
        let clean = "unknown field \"zz 2026-11-27T17:00:00Z  INFO FORGED [2J  \"";
        for code in [422, 403, 503] {
            let status = kube::core::Status { message: text.into(), code, ..Default::default() };
            match failure(&kube::Error::Api(Box::new(status))) {
                Failure::Invalid(said) | Failure::Refused(said) => assert_eq!(said, clean),
                Failure::Away(said) => assert_eq!(said, format!("it answers 503 {clean}")),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(causes(&std::io::Error::other(text)), clean);
    }
}

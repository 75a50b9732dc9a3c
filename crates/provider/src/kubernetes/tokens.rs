//! Whose a bearer token is: the API server says (`TokenReview`, `authentication.k8s.io/v1`).

use std::sync::Arc;

use api::Timestamp;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::Client;
use kube::api::{Api, PostParams};
use serde::Deserialize;

use crate::kubernetes::call::causes;

mod rechecks;
#[cfg(test)]
mod tests;

pub use rechecks::{RecheckTiming, TokenRechecks};

/// Asks whose tokens are.
#[derive(Clone)]
pub struct TokenReviewer {
    reviews: Api<TokenReview>,
    audience: Arc<str>,
}

/// Whose a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bearer {
    /// The user, as Kubernetes calls it: `system:serviceaccount:<namespace>:<name>`.
    pub user: Arc<str>,
    /// `metadata.uid` of the account, which another account of the name does not have.
    pub uid: Arc<str>,
    /// The Pod that it is bound to, if it is: it holds as long as that is there.
    pub pod: Option<BoundPod>,
    /// Until when the token holds, if it says so.
    pub expires: Option<Timestamp>,
}

/// The Pod that a token is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundPod {
    /// Its name.
    pub name: Arc<str>,
    /// `metadata.uid`, which another Pod of the name does not have. API servers say it since there are bound tokens.
    pub uid: Option<Arc<str>>,
}

/// Why it is not known whose a token is. The token is in none of the words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// It is not good, or not meant for us.
    #[error("the token is not good: {0}")]
    Refused(String),
    /// Nobody knows at the moment.
    #[error("the API server does not say whose a token is: {0}")]
    Unavailable(String),
}

impl TokenReviewer {
    /// Tokens have to be for this audience.
    #[must_use]
    pub fn new(client: Client, audience: Arc<str>) -> Self {
        Self { reviews: Api::all(client), audience }
    }

    /// Whose a token is.
    ///
    /// # Errors
    /// It is not good, or it cannot be said.
    pub async fn review(&self, token: &str) -> Result<Bearer, ReviewError> {
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: Some(vec![self.audience.to_string()]) };
        let review = TokenReview { spec, ..TokenReview::default() };
        let answer = self.reviews.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(|error| ReviewError::Unavailable(causes(&error)))?;
        let bearer = authenticated(answer.status.unwrap_or_default(), &self.audience)?;
        Ok(Bearer { expires: expiry(token), ..bearer })
    }
}

/// Where a `TokenReview` says which Pod a token is bound to (Kubernetes, "Service account token attributes").
const POD: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// The bearer of a token that is good and for this audience, without its end. A server that does not know of audiences says none.
fn authenticated(status: TokenReviewStatus, audience: &str) -> Result<Bearer, ReviewError> {
    let refused = |words: &str| Err(ReviewError::Refused(words.to_owned()));
    if status.authenticated != Some(true) {
        return refused(status.error.as_deref().unwrap_or("the API server does not know it"));
    }
    if !status.audiences.is_some_and(|audiences| audiences.iter().any(|own| own == audience)) {
        return refused("it is for another audience");
    }
    let user = status.user.unwrap_or_default();
    let said = |name: &str| match user.extra.as_ref()?.get(name)?.as_slice() {
        [one] => Some(Arc::from(one.as_str())),
        _ => None,
    };
    let pod = said(POD).map(|name| BoundPod { name, uid: said(POD_UID) });
    match user.username.filter(|name| !name.is_empty()) {
        Some(name) => Ok(Bearer { user: name.into(), uid: user.uid.unwrap_or_default().into(), pod, expires: None }),
        None => refused("it names nobody"),
    }
}

/// `exp` of a JSON Web Token (RFC 7519). That the token is good, the API server has said.
fn expiry(token: &str) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Claims {
        exp: i64,
    }
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let Claims { exp } = serde_json::from_slice(&claims).ok()?;
    Some(Timestamp(exp))
}

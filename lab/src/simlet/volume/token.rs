//! Tokens of ServiceAccounts, bound to their pod, and renewed before they end.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use tokio::time::Instant;

use super::Of;

/// A token that a volume wants.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wanted {
    /// The API server's unless given.
    pub(super) audience: Option<String>,
    pub(super) seconds: i64,
}

/// The tokens of one pod.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    have: BTreeMap<Wanted, Token>,
}

#[derive(Debug)]
struct Token {
    text: String,
    renew: Instant,
}

/// The part of its life, in percent, after which a token is renewed; a day at most.
const RENEW_AT: u32 = 80;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// How soon is tried again what failed while the old token still holds.
const AGAIN: Duration = Duration::from_secs(5);

impl Tokens {
    /// The token, a new one if it is time.
    pub(super) async fn get(&mut self, of: &Of<'_>, wanted: Wanted) -> Result<String, String> {
        if let Some(token) = self.have.get(&wanted).filter(|token| Instant::now() < token.renew) {
            return Ok(token.text.clone());
        }
        match request(of, &wanted).await {
            Ok((text, life)) => {
                let renew = Instant::now() + (life * RENEW_AT / 100).min(DAY);
                self.have.insert(wanted, Token { text: text.clone(), renew });
                Ok(text)
            }
            Err(error) => match self.have.get_mut(&wanted) {
                Some(token) => {
                    token.renew = Instant::now() + AGAIN;
                    Ok(token.text.clone())
                }
                None => Err(format!("failed to fetch token: {error}")),
            },
        }
    }

    /// How long until the first of them has to be renewed.
    pub(super) fn renewal(&self) -> Option<Duration> {
        let first = self.have.values().map(|token| token.renew).min()?;
        Some(first.saturating_duration_since(Instant::now()))
    }
}

/// Asks for one; gives also how long it lives.
async fn request(of: &Of<'_>, wanted: &Wanted) -> Result<(String, Duration), kube::Error> {
    let account =
        of.pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone()).unwrap_or_else(|| "default".to_owned());
    let api: Api<ServiceAccount> = Api::namespaced(of.context.client.clone(), &of.pod.namespace().unwrap_or_default());
    let spec = TokenRequestSpec {
        audiences: Some(wanted.audience.iter().cloned().collect()),
        expiration_seconds: Some(wanted.seconds),
        bound_object_ref: Some(BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(of.pod.name_any()),
            uid: of.pod.uid(),
        }),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let answer = api.create_token_request(&account, &PostParams::default(), &request).await?;
    let seconds = answer.spec.and_then(|spec| spec.expiration_seconds).unwrap_or(wanted.seconds);
    let text = answer.status.and_then(|status| status.token).unwrap_or_default();
    Ok((text, Duration::from_secs(u64::try_from(seconds).unwrap_or_default())))
}

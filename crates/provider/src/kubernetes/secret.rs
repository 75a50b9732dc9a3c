//! One Secret that we keep something in ourselves: read and written as a whole, by several replicas without a lock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::time::timeout;

use crate::kubernetes::call::causes;

/// How long an answer may take: a Secret is small.
const PATIENCE: Duration = Duration::from_secs(15);

/// Where it is.
#[derive(Clone)]
pub struct SecretStore {
    secrets: Api<Secret>,
    namespace: Arc<str>,
    name: Arc<str>,
}

/// What is in it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// Values by key.
    pub data: BTreeMap<String, Vec<u8>>,
    /// `type` of the Secret.
    pub secret_type: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Of which version it is; none: there is no such Secret yet.
    version: Option<String>,
}

/// It holds secrets.
impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("keys", &self.data.keys()).finish_non_exhaustive()
    }
}

/// Why a Secret was not read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Somebody else wrote it in between: read it again.
    #[error("Secret {0} was changed meanwhile")]
    Changed(String),
    /// It may not be read or written, or the API server is away.
    #[error("Secret {0}: {1}")]
    Failed(String, String),
}

impl Kept {
    /// One of this type with these labels, with nothing in it, that is not there yet.
    #[must_use]
    pub fn new(secret_type: &str, labels: BTreeMap<String, String>) -> Self {
        Self { secret_type: secret_type.to_owned(), labels, ..Self::default() }
    }
}

impl SecretStore {
    /// The Secret with this name.
    #[must_use]
    pub fn new(client: Client, namespace: &Arc<str>, name: &Arc<str>) -> Self {
        let secrets = Api::namespaced(client, namespace);
        Self { secrets, namespace: Arc::clone(namespace), name: Arc::clone(name) }
    }

    /// What is in it; none if there is no such Secret.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn read(&self) -> Result<Option<Kept>, SecretError> {
        let found = self.in_time(self.secrets.get_opt(&self.name)).await?;
        Ok(found.map_err(|error| self.failed(&error))?.map(kept))
    }

    /// Writes it, as long as it is what it was when it was read; what has no version is made.
    ///
    /// # Errors
    /// It was changed meanwhile, or cannot be written.
    pub async fn write(&self, kept: &Kept) -> Result<(), SecretError> {
        let secret = self.secret(kept);
        let options = PostParams::default();
        let written = match kept.version {
            None => self.in_time(self.secrets.create(&options, &secret)).await?,
            Some(_) => self.in_time(self.secrets.replace(&self.name, &options, &secret)).await?,
        };
        match written {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => Err(SecretError::Changed(self.shown())),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// A server that takes a question and does not answer holds nobody up.
    async fn in_time<T>(&self, asked: impl Future<Output = T>) -> Result<T, SecretError> {
        let answer = timeout(PATIENCE, asked).await;
        answer.map_err(|_| SecretError::Failed(self.shown(), "no answer in time".to_owned()))
    }

    fn secret(&self, kept: &Kept) -> Secret {
        let metadata = ObjectMeta {
            name: Some(self.name.to_string()),
            namespace: Some(self.namespace.to_string()),
            labels: Some(kept.labels.clone()),
            resource_version: kept.version.clone(),
            ..ObjectMeta::default()
        };
        let data = kept.data.iter().map(|(key, value)| (key.clone(), ByteString(value.clone()))).collect();
        Secret { metadata, data: Some(data), type_: Some(kept.secret_type.clone()), ..Secret::default() }
    }

    fn failed(&self, error: &kube::Error) -> SecretError {
        let words = match error {
            kube::Error::Api(status) => status.message.clone(),
            error => causes(error),
        };
        SecretError::Failed(self.shown(), words)
    }

    fn shown(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

fn kept(secret: Secret) -> Kept {
    let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect();
    Kept {
        data,
        secret_type: secret.type_.unwrap_or_default(),
        labels: secret.metadata.labels.unwrap_or_default(),
        version: secret.metadata.resource_version,
    }
}

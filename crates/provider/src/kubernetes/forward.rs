//! Pods seen from outside, with the rights of whoever has the kubeconfig: which there are, which of them leads, and a connection to a port of one's
//! loopback, through the API server.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams, Portforwarder};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use crate::kubernetes::call::causes;

/// How long an answer of the API server may take.
const ANSWER: Duration = Duration::from_secs(15);

/// How long the words of a kubelet that cannot connect are waited for.
const WORDS: Duration = Duration::from_secs(1);

/// The Pods of a namespace.
#[derive(Clone)]
pub struct Pods {
    client: Client,
    namespace: Arc<str>,
}

/// A Pod, as far as it matters to who wants to connect to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodState {
    /// Its name.
    pub name: Arc<str>,
    /// Its containers run; else what the API server calls its state.
    pub phase: Result<(), String>,
    /// It says that it is ready.
    pub ready: bool,
}

/// Why a Pod was not reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReachError {
    /// Rights are missing.
    #[error("{0}; it takes a Role in namespace {1} with {2}")]
    Forbidden(String, Arc<str>, &'static str),
    /// There is none.
    #[error("there is no Pod {0}/{1}")]
    Missing(Arc<str>, String),
    /// It does not run.
    #[error("Pod {0}/{1} does not run: it is {2}")]
    NotRunning(Arc<str>, String, String),
    /// The API server or the kubelet does not do it.
    #[error("{0}")]
    Failed(String),
}

/// Bytes to and from a port of a Pod, both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

impl Pods {
    /// Those of this namespace.
    #[must_use]
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { client, namespace: namespace.into() }
    }

    /// The Pod whose program holds a lease, by what programs write there: `<Pod>_<anything>`. None if nobody does.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn leader(&self, lease: &str) -> Result<Option<Arc<str>>, ReachError> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        let found = self.answer(leases.get_opt(lease), "`get` of leases (coordination.k8s.io)").await?;
        let holder = found.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
        let pod = holder.rsplit_once('_').map_or(&*holder, |(pod, _)| pod);
        Ok((!pod.is_empty()).then(|| pod.into()))
    }

    /// Those with these labels that are not on their way out, by name.
    ///
    /// # Errors
    /// They cannot be listed.
    pub async fn list(&self, labels: &str) -> Result<Vec<PodState>, ReachError> {
        let how = ListParams::default().labels(labels);
        let found = self.answer(self.pods().list(&how), "`list` of pods").await?;
        let staying = found.items.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let mut all: Vec<PodState> = staying.map(state).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }

    /// Connects to a port of a Pod's loopback.
    ///
    /// # Errors
    /// There is no such Pod, it does not run, or the API server does not do it. That nobody listens there is not known yet: see [`Pods::complaint`].
    pub async fn connect(&self, pod: &str, port: u16) -> Result<Box<dyn Duplex>, ReachError> {
        let stream = self.forward(pod, port).await?.take_stream(port).ok_or_else(|| self.not_forwarded(pod, port))?;
        Ok(Box::new(stream))
    }

    /// Why the kubelet cannot connect to a port, if it says so. It is asked over a connection on which nothing is written: where a request is under
    /// way, the connection may end before the kubelet's words have passed the API server.
    ///
    /// # Errors
    /// As with [`Pods::connect`].
    pub async fn complaint(&self, pod: &str, port: u16) -> Result<Option<String>, ReachError> {
        let mut forwarder = self.forward(pod, port).await?;
        let words = forwarder.take_error(port).ok_or_else(|| self.not_forwarded(pod, port))?;
        Ok(timeout(WORDS, words).await.ok().flatten())
    }

    async fn forward(&self, pod: &str, port: u16) -> Result<Portforwarder, ReachError> {
        let connecting = timeout(ANSWER, self.pods().portforward(pod, &[port])).await;
        match connecting.map_err(|_| ReachError::Failed("no answer in time".to_owned()))? {
            Ok(forwarder) => Ok(forwarder),
            Err(error) => Err(self.why_not(pod, error).await),
        }
    }

    fn not_forwarded(&self, pod: &str, port: u16) -> ReachError {
        ReachError::Failed(format!("port {port} of Pod {}/{pod} was not forwarded", self.namespace))
    }

    /// Of a refusal without a reason the state of the Pod is one.
    async fn why_not(&self, pod: &str, error: kube::Error) -> ReachError {
        if matches!(&error, kube::Error::Api(status) if status.code == 404) {
            return ReachError::Missing(Arc::clone(&self.namespace), pod.to_owned());
        }
        let why = self.failure(error, "`get` and `create` of pods/portforward");
        if let ReachError::Failed(_) = &why
            && let Ok(Some(found)) = self.answer(self.pods().get_opt(pod), "`get` of pods").await
            && let Err(phase) = state(&found).phase
        {
            return ReachError::NotRunning(Arc::clone(&self.namespace), pod.to_owned(), phase);
        }
        why
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn answer<T>(
        &self,
        asked: impl Future<Output = kube::Result<T>>,
        right: &'static str,
    ) -> Result<T, ReachError> {
        let answer = timeout(ANSWER, asked).await.map_err(|_| ReachError::Failed("no answer in time".to_owned()))?;
        answer.map_err(|error| self.failure(error, right))
    }

    fn failure(&self, error: kube::Error, right: &'static str) -> ReachError {
        match error {
            kube::Error::Api(status) if status.code == 403 => {
                ReachError::Forbidden(status.message, Arc::clone(&self.namespace), right)
            }
            kube::Error::Api(status) => ReachError::Failed(status.message),
            error => ReachError::Failed(causes(&error)),
        }
    }
}

fn state(pod: &Pod) -> PodState {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or("Unknown");
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    PodState {
        name: pod.metadata.name.as_deref().unwrap_or_default().into(),
        phase: if phase == "Running" { Ok(()) } else { Err(phase.to_owned()) },
        ready: conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"),
    }
}

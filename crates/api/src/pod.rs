//! `Pod`: a workload, of which the labels are read, and where it answers.

use std::net::IpAddr;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::kind::Kind;
use crate::resource::{Resource, Spec};

/// A workload.
pub type Pod = Resource<PodSpec>;

/// What a Pod says of itself beside its labels; of `spec` nothing is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(from = "Written")]
pub struct PodSpec {
    /// Where it answers (`status.podIP`); none as long as it runs nowhere.
    pub address: Option<IpAddr>,
    /// Takes traffic: it runs, and says that it is ready.
    pub ready: bool,
    /// About to go.
    pub terminating: bool,
}

impl Spec for PodSpec {
    const KIND: Kind = Kind::Pod;
    const FIELD: &'static str = "";
}

/// As written.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    metadata: WrittenMetadata,
    status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenMetadata {
    deletion_timestamp: Option<IgnoredAny>,
}

/// What is read of `status`: where the Pod answers, and whether it is ready to. A status changes more often than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(from = "WrittenStatus")]
pub struct PodStatus {
    address: Option<IpAddr>,
    ready: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenStatus {
    #[serde(rename = "podIP")]
    pod_ip: Option<Box<str>>,
    phase: Option<Box<str>>,
    conditions: Vec<WrittenCondition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WrittenCondition {
    #[serde(rename = "type")]
    condition_type: Box<str>,
    status: Box<str>,
}

impl From<WrittenStatus> for PodStatus {
    fn from(WrittenStatus { pod_ip, phase, conditions }: WrittenStatus) -> Self {
        let runs = phase.as_deref().is_none_or(|phase| phase == "Running");
        let is_ready =
            |condition: &WrittenCondition| &*condition.condition_type == "Ready" && &*condition.status == "True";
        // To the unspecified one a proxy would connect on its own machine.
        let address = pod_ip.and_then(|text| text.parse().ok()).filter(|address: &IpAddr| !address.is_unspecified());
        Self { address, ready: runs && conditions.iter().any(is_ready) }
    }
}

impl From<Written> for PodSpec {
    fn from(Written { metadata, status: PodStatus { address, ready } }: Written) -> Self {
        Self { address, ready, terminating: metadata.deletion_timestamp.is_some() }
    }
}

//! Backends: what stands behind a reference, how it is spoken to, and the cluster that comes of it in a fleet.

pub(crate) mod cluster;
pub(crate) mod object;
pub(crate) mod service;
pub(crate) mod slice;

use std::sync::Arc;

use api::{ObjectKey, Problem};
use ir::EndpointSource;
use ir::cluster::{Protocol, UpstreamTls};

use crate::key::ClusterTarget;
use crate::reference::RefFault;

/// Why a backend cannot be used; the share of the requests that goes there is answered with 500.
pub(crate) type BackendFault = RefFault;

/// A backend that can be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackendView {
    pub(crate) endpoints: EndpointSource,
    /// Name of the Service's port, by which its slices name theirs; empty where it has none.
    pub(crate) port_name: Box<str>,
    pub(crate) protocol: Protocol,
    pub(crate) tls: Option<Box<UpstreamTls>>,
    /// Secrets that `tls` names.
    pub(crate) secrets: Box<[SecretUse]>,
    /// Why no datagrams can be sent there; none if they can.
    pub(crate) no_datagrams: Option<&'static str>,
}

/// Proxies resolve a name to find it: there is no set of endpoints that could be shared.
pub(crate) const RESOLVED: &str = "has a name that is resolved";

/// A Secret or `ConfigMap` that a proxy gets, and as what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SecretUse {
    /// Which object.
    pub(crate) object: ObjectKey,
    /// As a certificate with its key, or as a bundle of certificates to believe.
    pub(crate) part: SecretPart,
}

/// What of an object is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SecretPart {
    /// `tls.crt` and `tls.key`.
    Certificate,
    /// `ca.crt`.
    Bundle,
}

/// What reading a Service or `Backend` gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Usable, or why not.
    pub(crate) view: Result<BackendView, BackendFault>,
    /// Worth saying although it works.
    pub(crate) problems: Box<[Arc<Problem>]>,
}

/// All that routes read of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// What everything behind shares, in place of one more copy per reference.
    pub(crate) target: ClusterTarget,
    /// None: it can be sent to.
    pub(crate) fault: Option<Box<BackendFault>>,
    /// Why no datagrams can be sent there; none if they can.
    pub(crate) no_datagrams: Option<&'static str>,
}

impl Reading {
    pub(crate) fn good(view: BackendView) -> Self {
        Self { view: Ok(view), problems: Box::default() }
    }

    pub(crate) fn bad(fault: BackendFault) -> Self {
        Self { view: Err(fault), problems: Box::default() }
    }
}

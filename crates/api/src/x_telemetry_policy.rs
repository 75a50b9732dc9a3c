//! `XTelemetryPolicy` of Gateway API (GEP-4768, experimental): traces of what Gateways do.

use serde::Deserialize;

use crate::http_route::HeaderValue;
use crate::kind::Kind;
use crate::open::open_enum;
use crate::problem::{Fault, UnitFaults};
use crate::reference::{BackendObjectRef, PolicyTargetRef};
use crate::resource::{Resource, Spec};

/// What is recorded of requests.
pub type XTelemetryPolicy = Resource<XTelemetryPolicySpec>;

/// `XTelemetryPolicy.spec`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct XTelemetryPolicySpec {
    /// Gateways of its namespace; 1 to 16.
    pub target_refs: Box<[PolicyTargetRef]>,
    /// Traces.
    pub tracing: Option<Box<Tracing>>,
    /// Why none of it can be used.
    #[serde(skip)]
    pub fault: Option<Box<Fault>>,
    /// Fields that are written and not read.
    #[serde(skip)]
    pub ignored: Box<[Fault]>,
}

impl Spec for XTelemetryPolicySpec {
    const KIND: Kind = Kind::XTelemetryPolicy;

    fn mark(&mut self, found: UnitFaults) {
        self.fault = UnitFaults::first(found.faults);
        self.ignored = found.ignored.into();
    }
}

/// `XTelemetryPolicy.spec.tracing`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Tracing {
    /// Whether there are traces. The other fields are for `Enabled`.
    pub mode: TelemetryMode,
    /// Who gets the spans.
    pub provider: Option<Box<TracingProvider>>,
    /// Share of the requests without a trace of their own that begin one; none: all.
    pub sampling_rate: Option<Fraction>,
    /// What is done with requests that bring a trace.
    pub parent_based_sampling: Option<ParentBasedSampling>,
    /// `service.name` of the spans.
    pub service_name: Option<Box<str>>,
    /// Name of the spans.
    pub span_name: Option<Box<str>>,
    /// What else spans carry.
    pub attributes: Box<[TracingAttribute]>,
}

open_enum! {
    /// `tracing.mode` and `tracing.parentBasedSampling.mode`.
    TelemetryMode {
        /// As we like.
        ImplementationDefault = "ImplementationDefault",
        /// On.
        Enabled = "Enabled",
        /// Off.
        Disabled = "Disabled",
    }
}

/// `tracing.provider`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TracingProvider {
    /// A collector that takes OTLP over gRPC.
    pub backend_ref: BackendObjectRef,
    /// Sent with the spans; at most 16.
    pub headers: Box<[HeaderValue]>,
}

/// A fraction, at most 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Fraction {
    /// From 0.
    pub numerator: u32,
    /// From 1, default 100.
    pub denominator: u32,
}

impl Default for Fraction {
    fn default() -> Self {
        Self { numerator: 0, denominator: 100 }
    }
}

/// `tracing.parentBasedSampling`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParentBasedSampling {
    /// `Enabled`: as the parent was decided upon. `Disabled`: as if there was none.
    pub mode: TelemetryMode,
    /// For `Enabled`: of these the share that is taken; none: all.
    pub sampling_rate: Option<Fraction>,
}

/// `tracing.attributes[]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TracingAttribute {
    /// Key in the span.
    pub name: Box<str>,
    /// Which of the other fields counts.
    pub source_type: AttributeSource,
    /// A header of the request.
    pub header_name: Option<Box<str>>,
    /// The value.
    pub literal_value: Option<Box<str>>,
    /// An attribute of OpenTelemetry, for example `http.request.method`.
    pub attribute_key: Option<Box<str>>,
}

open_enum! {
    /// `tracing.attributes[].sourceType`.
    AttributeSource {
        /// A header of the request.
        Header = "Header",
        /// Always the same.
        Literal = "Literal",
        /// What the proxy knows.
        Attribute = "Attribute",
    }
}

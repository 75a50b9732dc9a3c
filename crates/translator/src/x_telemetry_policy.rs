//! `XTelemetryPolicy` of Gateway API: traces of what Gateways do (GEP-4768).

use std::sync::Arc;

use api::reference::{BackendObjectRef, PolicyTargetRef};
use api::x_telemetry_policy::{
    AttributeSource, Fraction, TelemetryMode, Tracing as Written, TracingAttribute, TracingProvider, XTelemetryPolicy,
};
use api::{Kind, ObjectKey};
use ir::ClusterName;
use ir::listener::{SpanAttribute, SpanValue, Tracing};

use crate::backend_traffic_policy::{PolicyTarget, Target};
use crate::key::ClusterTarget;
use crate::listener::Refusal;
use crate::reference::{RefFault, RefReason, unfit};
use crate::status;

/// A policy, judged by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TelemetryPolicy {
    pub(crate) generation: i64,
    pub(crate) targets: Vec<Target>,
    /// Why it cannot be used. It has its place beside other policies nevertheless: what it is for is not left to them.
    pub(crate) fault: Option<Arc<str>>,
    /// What its Gateways record, and who gets it; none: nothing.
    pub(crate) tracer: Option<Tracer>,
    /// Why `ResolvedRefs` does not hold; then nothing is recorded.
    pub(crate) unresolved: Option<Refusal>,
    /// What is written and ignored: reason and words.
    pub(crate) warnings: Vec<(&'static str, String)>,
    /// The same as far as nobody has told it yet: field and words.
    pub(crate) told_here: Vec<(String, String)>,
}

/// What Gateways record, and who gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tracer {
    pub(crate) tracing: Arc<Tracing>,
    pub(crate) collector: ClusterTarget,
}

/// Reads a policy; `follow` says where a reference to a backend leads.
pub(crate) fn read(
    policy: &XTelemetryPolicy,
    follow: impl FnOnce(&BackendObjectRef) -> Result<ClusterTarget, RefFault>,
) -> TelemetryPolicy {
    let spec = &policy.spec;
    let mut told_here = Vec::new();
    let (mut tracer, mut unresolved) = (None, None);
    let enabled = spec.tracing.as_deref().filter(|tracing| tracing.mode == TelemetryMode::Enabled);
    if let (None, Some(tracing)) = (&spec.fault, enabled)
        && let Some(provider) = tracing.provider.as_deref()
    {
        match follow(&provider.backend_ref) {
            Ok(target) => {
                let collector = target.for_telemetry();
                let to = &provider.backend_ref;
                let namespace = to.namespace.as_deref().unwrap_or_else(|| policy.meta.namespace());
                let authority = format!("{}.{namespace}", to.name).into();
                let tracing = traced((collector.name(), authority), tracing, provider, &mut told_here);
                tracer = Some(Tracer { tracing: Arc::new(tracing), collector });
            }
            Err(fault) => unresolved = Some(refusal(&policy.meta.key, &provider.backend_ref, fault)),
        }
    }
    let bytes = tracer.as_ref().map_or(0, |tracer| size(&tracer.tracing));
    let mut fault: Option<Arc<str>> = spec.fault.as_ref().map(|fault| fault.to_string().into());
    if bytes > MOST_BYTES {
        tracer = None;
        let text = format!(
            "its names, attributes and headers have {bytes} bytes together, and {MOST_BYTES} can be used, as each listener of the Gateway \
             repeats them; nothing is recorded; write fewer or shorter ones"
        );
        fault = fault.or_else(|| Some(format!("spec.tracing: {text}").into()));
        told_here.push(("spec.tracing".to_owned(), text));
    }
    let ignored = spec.ignored.iter().map(|field| (status::UNSUPPORTED, field.to_string()));
    let told = told_here.iter().map(|(field, text)| (status::UNSUPPORTED, format!("{field}: {text}")));
    TelemetryPolicy {
        generation: policy.meta.generation,
        targets: targets(policy),
        fault,
        tracer,
        unresolved,
        warnings: ignored.chain(told).collect(),
        told_here,
    }
}

/// The targets of a policy, all in its own namespace.
pub(crate) fn targets(policy: &XTelemetryPolicy) -> Vec<Target> {
    let read = |reference: &PolicyTargetRef| {
        let object = ObjectKey::new(&reference.group, &reference.kind, policy.meta.namespace(), &reference.name);
        if object.kind() != Some(Kind::Gateway) {
            let text = unfit(&reference.group, &reference.kind, "a target", &[Kind::Gateway]).into();
            return Target::Refused(object, text);
        }
        Target::Known(PolicyTarget { object, section: None })
    };
    policy.spec.target_refs.iter().map(read).collect()
}

fn refusal(policy: &ObjectKey, to: &BackendObjectRef, fault: RefFault) -> Refusal {
    let reason = match fault.reason {
        RefReason::NotPermitted => "RefNotPermitted",
        RefReason::InvalidKind => "InvalidKind",
        RefReason::NotFound | RefReason::NoPort | RefReason::UnsupportedProtocol => "BackendNotFound",
    };
    let refusal = Refusal::new(reason, fault.text).at("spec.tracing.provider.backendRef");
    if fault.reason != RefReason::NotFound {
        return refusal;
    }
    let namespace = to.namespace.as_deref().unwrap_or_else(|| policy.namespace());
    refusal.naming(ObjectKey::new(&to.group, &to.kind, namespace, &to.name))
}

/// `service.name` where none is written.
const SERVICE_NAME: &str = "envoy";

/// Of a span: each is in each listener and host name of a Gateway.
const MOST_ATTRIBUTES: usize = 64;

/// Bytes of the texts of a policy: each listener of its Gateway has them, so 2,048 listeners have 16 MiB. Attributes for which 64 have 128 bytes each are
/// longer than those of OpenTelemetry's conventions.
const MOST_BYTES: usize = 8 << 10;

/// Bytes of the texts that each listener has.
fn size(tracing: &Tracing) -> usize {
    let of_value = |value: &SpanValue| match value {
        SpanValue::Literal(text) | SpanValue::RequestHeader(text) | SpanValue::ResponseHeader(text) => text.len(),
        _ => 0,
    };
    let attributes = tracing.attributes.iter().map(|one| one.name.len() + of_value(&one.value));
    let headers = tracing.headers.iter().map(|(name, value)| name.len() + value.len());
    let span_name = tracing.span_name.as_deref().map_or(0, str::len);
    attributes.chain(headers).sum::<usize>() + tracing.service_name.len() + span_name
}

/// All of a whole, in the unit of [`Tracing::sampling`].
const WHOLE: u32 = 1_000_000;

fn traced(
    (collector, authority): (&ClusterName, Arc<str>),
    written: &Written,
    provider: &TracingProvider,
    told: &mut Vec<(String, String)>,
) -> Tracing {
    let parent = written.parent_based_sampling.as_ref();
    if parent.and_then(|parent| parent.sampling_rate).map_or(WHOLE, millionths) < WHOLE {
        let text = "a share of what was decided elsewhere cannot be taken: all of it is recorded";
        told.push(("spec.tracing.parentBasedSampling.samplingRate".to_owned(), text.to_owned()));
    }
    let mut headers = Vec::with_capacity(provider.headers.len());
    for (at, header) in provider.headers.iter().enumerate() {
        // Envoy takes it for the begin of a command, and what stands for one sign of it arrives as two (measured with 1.40).
        if header.value.contains('%') {
            let text = "% cannot be sent, and the header is left out".to_owned();
            told.push((format!("spec.tracing.provider.headers[{at}].value"), text));
        } else {
            headers.push(((*header.name).into(), (*header.value).into()));
        }
    }
    let mut attributes = Vec::with_capacity(written.attributes.len());
    if written.attributes.len() > MOST_ATTRIBUTES {
        let text = format!("there are more than {MOST_ATTRIBUTES}: spans are without those behind them");
        told.push(("spec.tracing.attributes".to_owned(), text));
    }
    for (at, attribute) in written.attributes.iter().take(MOST_ATTRIBUTES).enumerate() {
        match value(attribute) {
            Ok(value) => attributes.push(SpanAttribute { name: (*attribute.name).into(), value }),
            Err((field, text)) => told.push((format!("spec.tracing.attributes[{at}].{field}"), text)),
        }
    }
    Tracing {
        collector: collector.clone(),
        authority,
        headers,
        service_name: written.service_name.as_deref().unwrap_or(SERVICE_NAME).into(),
        span_name: written.span_name.as_deref().map(Arc::from),
        sampling: written.sampling_rate.map_or(WHOLE, millionths),
        follows_parent: parent.is_none_or(|parent| parent.mode != TelemetryMode::Disabled),
        attributes,
    }
}

/// To the nearest.
fn millionths(Fraction { numerator, denominator }: Fraction) -> u32 {
    let (numerator, denominator) = (u64::from(numerator), u64::from(denominator.max(1)));
    let share = (numerator * u64::from(WHOLE) + denominator / 2) / denominator;
    u32::try_from(share).unwrap_or(WHOLE).min(WHOLE)
}

/// What an attribute tells; the field at fault and words where that cannot be told: it is left out then (GEP-5253).
fn value(attribute: &TracingAttribute) -> Result<SpanValue, (&'static str, String)> {
    let text = |text: &Option<Box<str>>| Arc::<str>::from(text.as_deref().unwrap_or_default());
    match &attribute.source_type {
        AttributeSource::Literal => Ok(SpanValue::Literal(text(&attribute.literal_value))),
        AttributeSource::Header => Ok(SpanValue::RequestHeader(text(&attribute.header_name))),
        AttributeSource::Attribute => {
            let key = attribute.attribute_key.as_deref().unwrap_or_default();
            known(key).ok_or_else(|| ("attributeKey", format!("{key} is not known here, spans are without it")))
        }
        AttributeSource::Unknown(word) => Err(("sourceType", format!("{word:?} is not supported"))),
    }
}

/// Keys of OpenTelemetry's conventions, as far as a proxy knows what they mean.
fn known(key: &str) -> Option<SpanValue> {
    Some(match key {
        "http.request.method" | "http.request.method_original" => SpanValue::Method,
        "http.response.status_code" => SpanValue::Status,
        "user_agent.original" => SpanValue::RequestHeader("user-agent".into()),
        "url.scheme" => SpanValue::Scheme,
        "url.path" => SpanValue::Path,
        "url.query" => SpanValue::Query,
        "url.full" => SpanValue::Url,
        "client.address" => SpanValue::ClientAddress,
        "client.port" => SpanValue::ClientPort,
        "server.address" => SpanValue::Host,
        "server.port" => SpanValue::ServerPort,
        "network.peer.address" => SpanValue::PeerAddress,
        "network.peer.port" => SpanValue::PeerPort,
        "network.protocol.name" => SpanValue::Literal("http".into()),
        "network.transport" => SpanValue::Literal("tcp".into()),
        _ => match (key.strip_prefix("http.request.header."), key.strip_prefix("http.response.header.")) {
            (Some(name), _) if !name.is_empty() => SpanValue::RequestHeader(name.into()),
            (_, Some(name)) if !name.is_empty() => SpanValue::ResponseHeader(name.into()),
            _ => return None,
        },
    })
}

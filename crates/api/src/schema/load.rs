//! Loads a schema from its text.
//!
//! The language is OpenAPI v3 as CRDs use it. Our own files may write a type as one word (`string`, `integer`,
//! `boolean`, `number`, `int-or-string`, `any`, `timestamp`), with `!` behind it where the field is required; `[x]` for a
//! list of `x`; `{fields: {..}}` for an object; `map` for an object that is passed on unchecked; `later` for a field of the kind
//! that this version does not act on; and `guard` for one of these without which more is let through: an object that has it is not used as if
//! it was without. `others: guard` says the same of all fields that are not named. A field that is built gets a schema in place of the
//! word. What several kinds or fields share has a word of its own: [`shared`].

use super::{
    Depth, Format, GUARDS, Limits, ListType, Pattern, Property, Rule, Schema, Type, UNITS, UnitKind, Word, by_length,
};
use crate::cel::Program;
use crate::kind::Kind;
use crate::tree::{Cursor, Node, Tree, Value};

/// The text of a kind's schema.
fn text(kind: Kind) -> &'static str {
    match kind {
        Kind::GatewayClass => include_str!("../../schemas/gateway-api/GatewayClass.json"),
        Kind::Gateway => include_str!("../../schemas/gateway-api/Gateway.json"),
        Kind::HttpRoute => include_str!("../../schemas/gateway-api/HTTPRoute.json"),
        Kind::GrpcRoute => include_str!("../../schemas/gateway-api/GRPCRoute.json"),
        Kind::TlsRoute => include_str!("../../schemas/gateway-api/TLSRoute.json"),
        Kind::TcpRoute => include_str!("../../schemas/gateway-api/TCPRoute.json"),
        Kind::UdpRoute => include_str!("../../schemas/gateway-api/UDPRoute.json"),
        Kind::ListenerSet => include_str!("../../schemas/gateway-api/ListenerSet.json"),
        Kind::BackendTlsPolicy => include_str!("../../schemas/gateway-api/BackendTLSPolicy.json"),
        Kind::ReferenceGrant => include_str!("../../schemas/gateway-api/ReferenceGrant.json"),
        Kind::XBackend => include_str!("../../schemas/gateway-api/XBackend.json"),
        Kind::XTelemetryPolicy => include_str!("../../schemas/gateway-api/XTelemetryPolicy.json"),
        Kind::XBackendTrafficPolicy => include_str!("../../schemas/gateway-api/XBackendTrafficPolicy.json"),
        Kind::ServiceImport => include_str!("../../schemas/own/ServiceImport.yaml"),
        Kind::ClusterTrustBundle => include_str!("../../schemas/own/ClusterTrustBundle.yaml"),
        Kind::Service => include_str!("../../schemas/own/Service.yaml"),
        Kind::EndpointSlice => include_str!("../../schemas/own/EndpointSlice.yaml"),
        Kind::Secret => include_str!("../../schemas/own/Secret.yaml"),
        Kind::ConfigMap => include_str!("../../schemas/own/ConfigMap.yaml"),
        Kind::Namespace => include_str!("../../schemas/own/Namespace.yaml"),
        Kind::Backend => include_str!("../../schemas/own/Backend.yaml"),
        Kind::EnvoyProxy => include_str!("../../schemas/own/EnvoyProxy.yaml"),
        Kind::BackendTrafficPolicy => include_str!("../../schemas/own/BackendTrafficPolicy.yaml"),
        Kind::SecurityPolicy => include_str!("../../schemas/own/SecurityPolicy.yaml"),
        Kind::EnvoyExtensionPolicy => include_str!("../../schemas/own/EnvoyExtensionPolicy.yaml"),
        Kind::ClientTrafficPolicy => include_str!("../../schemas/own/ClientTrafficPolicy.yaml"),
        Kind::EnvoyPatchPolicy => include_str!("../../schemas/own/EnvoyPatchPolicy.yaml"),
        Kind::EnvoyGateway => include_str!("../../schemas/own/EnvoyGateway.yaml"),
        Kind::Pod => include_str!("../../schemas/own/Pod.yaml"),
        Kind::BootesCluster | Kind::BootesListener | Kind::BootesRoute | Kind::BootesEndpoint => {
            include_str!("../../schemas/own/Bootes.yaml")
        }
        Kind::EnvoySecret => include_str!("../../schemas/own/EnvoySecret.yaml"),
        Kind::EnvoyEndpoint => include_str!("../../schemas/own/EnvoyEndpoint.yaml"),
        Kind::EnvoyCluster
        | Kind::EnvoyListener
        | Kind::EnvoyRoute
        | Kind::EnvoyScopedRoute
        | Kind::EnvoyVirtualHost
        | Kind::EnvoyRuntime
        | Kind::EnvoyExtensionConfig => include_str!("../../schemas/own/EnvoyResource.yaml"),
    }
}

/// What every kind has beside its own fields. Statuses are not checked: they are copies of output.
const FRAME: &str = include_str!("../../schemas/own/frame.yaml");

/// The schema of a kind. A text that cannot be loaded gives a schema that checks nothing; tests hold that all load.
pub(super) fn load(kind: Kind) -> Schema {
    let mut schema = try_load(kind).unwrap_or_default();
    for (of, path, unit) in UNITS {
        if *of == kind {
            schema.mark_units(path, *unit);
        }
    }
    let mut guards: Vec<(&[&str], Depth)> =
        GUARDS.iter().filter(|(of, ..)| *of == kind).map(|(_, path, depth)| (*path, *depth)).collect();
    if kind.message().is_some() {
        schema.mark_units(&["spec"], UnitKind::Whole);
        guards.extend(GUARDS_OF_RAW);
    }
    let mut guard_names = Vec::new();
    for (path, depth) in guards {
        if schema.mark_guard(path, depth).is_some() {
            guard_names.extend(schema.names_of_guard(path, depth));
        }
    }
    guard_names.extend(unbuilt_guards(&schema, ""));
    let of_others = GUARDS_OF_OTHERS.iter().filter(|(of, ..)| *of == kind);
    guard_names.extend(of_others.map(|(_, name, place)| (Box::from(*name), (*place).to_owned())));
    schema.guard_names = guard_names.into();
    schema
}

/// Names of the fields that guard and are not built, with the paths where they belong.
fn unbuilt_guards(schema: &Schema, above: &str) -> Vec<(Box<str>, String)> {
    let mut found = Vec::new();
    for property in &schema.properties {
        let path = if above.is_empty() { property.name.to_string() } else { format!("{above}.{}", property.name) };
        if property.schema.later && property.schema.guards {
            found.push((property.name.clone(), path));
        } else {
            found.extend(unbuilt_guards(&property.schema, &path));
        }
    }
    found
}

/// What routes of requests narrow and guard by, where connections alone are taken.
const GUARDS_OF_OTHERS: [(Kind, &str, &str); 8] = [
    (Kind::TcpRoute, "hostnames", "an HTTPRoute, GRPCRoute or TLSRoute"),
    (Kind::TcpRoute, "matches", "an HTTPRoute or GRPCRoute"),
    (Kind::TcpRoute, "filters", "an HTTPRoute or GRPCRoute"),
    (Kind::UdpRoute, "hostnames", "an HTTPRoute, GRPCRoute or TLSRoute"),
    (Kind::UdpRoute, "matches", "an HTTPRoute or GRPCRoute"),
    (Kind::UdpRoute, "filters", "an HTTPRoute or GRPCRoute"),
    (Kind::TlsRoute, "matches", "an HTTPRoute or GRPCRoute"),
    (Kind::TlsRoute, "filters", "an HTTPRoute or GRPCRoute"),
];

/// Of what users write as Envoy has it: without its selector a resource is for every workload; the others not every kind has.
const GUARDS_OF_RAW: [(&[&str], Depth); 4] = [
    (&["spec", "workloadSelector"], Depth::All),
    (&["spec", "priority"], Depth::Field),
    (&["spec", "secretRef"], Depth::Field),
    (&["spec", "service"], Depth::Field),
];

/// As [`load`], with what is wrong with the text.
pub(super) fn try_load(kind: Kind) -> Result<Schema, String> {
    let read = |text: &'static str| -> Result<Schema, String> {
        let tree = crate::yaml::parse(text).map_err(|error| error.to_string())?;
        schema(tree.root())
    };
    let mut whole = read(text(kind))?;
    let frame = read(FRAME)?;
    let own = |name: &str| whole.properties.iter().any(|property| *property.name == *name);
    let frame = frame.properties.into_iter().filter(|property| !own(&property.name)).collect::<Vec<_>>();
    let mut properties: Vec<_> = whole.properties.into_iter().chain(frame).collect();
    sort(&mut properties);
    // Its names have colons (`example.com:internal:v1`).
    if kind == Kind::ClusterTrustBundle {
        let metadata = properties.iter_mut().find(|property| *property.name == *"metadata");
        let fields = metadata.into_iter().flat_map(|metadata| &mut metadata.schema.properties);
        fields.filter(|field| *field.name == *"name").for_each(|name| name.schema.pattern = None);
    }
    // The static configuration is a file and need not have a name.
    if kind == Kind::EnvoyGateway {
        properties
            .iter_mut()
            .filter(|property| *property.name == *"metadata")
            .for_each(|metadata| metadata.required = false);
    }
    whole.properties = properties.into();
    Ok(whole)
}

fn schema(at: Cursor<'_, 'static>) -> Result<Schema, String> {
    match at.value() {
        Value::String(word) => return short(word),
        Value::List(_) => {
            let item = at.items().next().ok_or("a list names the schema of its items")?;
            return Ok(Schema { value_type: Type::List, items: Some(Box::new(schema(item)?)), ..Schema::default() });
        }
        _ => {}
    }
    let mut out = Schema { value_type: value_type(at)?, ..Schema::default() };
    let required: Vec<_> =
        at.get("required").into_iter().flat_map(|names| names.items()).filter_map(Cursor::as_str).collect();
    let mut properties = Vec::new();
    for (name, field) in ["properties", "fields"].iter().filter_map(|word| at.get(word)).flat_map(Cursor::entries) {
        let name = name.as_str().unwrap_or_default();
        let inner = schema(field).map_err(|error| format!("{name}: {error}"))?;
        let marked = field.as_str().is_some_and(|word| word.ends_with('!'));
        properties.push(Property { name: name.into(), required: marked || required.contains(&name), schema: inner });
    }
    sort(&mut properties);
    out.properties = properties.into();
    out.values = at
        .get("additionalProperties")
        .filter(|inner| !matches!(inner.value(), Value::Bool(_)))
        .map(schema)
        .transpose()?
        .map(Box::new);
    if let Some(Value::Bool(true)) = at.get("x-kubernetes-preserve-unknown-fields").map(Cursor::value) {
        out.values = Some(Box::default());
    }
    out.others_guard = at.get("others").and_then(Cursor::as_str) == Some("guard");
    out.items = at.get("items").map(schema).transpose()?.map(Box::new);
    out.not = at.get("not").map(schema).transpose()?.map(Box::new);
    out.one_of = several(at, "oneOf")?;
    out.any_of = several(at, "anyOf")?;
    limits(at, &mut out)?;
    out.rules = rules(at)?;
    Ok(out)
}

/// A type in one word.
fn short(word: &str) -> Result<Schema, String> {
    let word = word.trim_end_matches('!');
    let mut schema = Schema::default();
    match word {
        "any" => schema.value_type = Type::Any,
        "later" => schema.later = true,
        "guard" => (schema.later, schema.guards) = (true, true),
        "ip" => (schema.value_type, schema.format) = (Type::String, Some(Format::Ip)),
        "slice-address" => (schema.value_type, schema.format) = (Type::String, Some(Format::SliceAddress)),
        "timestamp" => (schema.value_type, schema.format) = (Type::String, Some(Format::Timestamp)),
        "int-or-string" => schema.value_type = Type::IntOrString,
        "port" => {
            schema.value_type = Type::Integer;
            (schema.limits.minimum, schema.limits.maximum) = (1, 65_535);
        }
        // Strings by name.
        "strings" => {
            schema.value_type = Type::Object;
            schema.values = Some(Box::new(short("string")?));
        }
        "map" => {
            schema.value_type = Type::Object;
            schema.values = Some(Box::default());
        }
        word => match shared(word) {
            Some(shared) => return shared,
            None => schema.value_type = named_type(word)?,
        },
    }
    Ok(schema)
}

/// What a word stands for that means more than a type.
fn shared(word: &str) -> Option<Result<Schema, String>> {
    let text = match word {
        // What `EnvoyProxy.spec` is.
        "proxy-spec" => {
            let spec = |proxy: Schema| {
                let spec = proxy.properties.into_iter().find(|property| *property.name == *"spec");
                spec.map(|spec| spec.schema).ok_or_else(|| "EnvoyProxy has no spec".to_owned())
            };
            return Some(try_load(Kind::EnvoyProxy).and_then(spec));
        }
        "envoy-pod" => ENVOY_POD,
        "envoy-container" => ENVOY_CONTAINER,
        "object-patch" => OBJECT_PATCH,
        "label-selector" => LABEL_SELECTOR,
        "policy-target" => POLICY_TARGET,
        "policy-target-selector" => POLICY_TARGET_SELECTOR,
        // Bootes has labels of its own name beside.
        "workload-selector" => {
            let with_labels = |mut selector: Schema| {
                let labels = Property { name: "labels".into(), required: false, schema: short("strings")? };
                let mut properties: Vec<_> = selector.properties.into_iter().chain([labels]).collect();
                sort(&mut properties);
                selector.properties = properties.into();
                Ok(selector)
            };
            return Some(short("label-selector").and_then(with_labels));
        }
        _ => return None,
    };
    let tree = crate::yaml::parse(text).map_err(|error| error.to_string());
    Some(tree.and_then(|tree| schema(tree.root())))
}

/// `pod` in `EnvoyProxy.spec.provider.kubernetes`.
const ENVOY_POD: &str = "{x-kubernetes-preserve-unknown-fields: true, fields: { affinity: map, annotations: strings, \
    imagePullSecrets: [map], labels: strings, nodeSelector: strings, priorityClassName: string, securityContext: map, tolerations: [map], \
    topologySpreadConstraints: [map], volumes: [map] }}";

/// `container` in `EnvoyProxy.spec.provider.kubernetes`.
const ENVOY_CONTAINER: &str = "{x-kubernetes-preserve-unknown-fields: true, fields: { env: [map], image: string, \
    imageRepository: string, resources: map, securityContext: map, volumeMounts: [map] }, rules: [{ rule: '!has(self.image) || \
    !has(self.imageRepository)', message: image and imageRepository exclude each other }]}";

/// `metav1.LabelSelector`.
const LABEL_SELECTOR: &str = "
fields:
  matchLabels: strings
  matchExpressions:
    type: array
    items:
      fields:
        key: { type: string, minLength: 1 }
        operator: { type: string, enum: [In, NotIn, Exists, DoesNotExist] }
        values: [string]
      required: [key, operator]
      rules:
      - rule: (self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)
        message: In and NotIn need values, Exists and DoesNotExist have none
";

/// `targetRefs[]` of the policies of Envoy Gateway.
const POLICY_TARGET: &str = "
fields: { group: string!, kind: string!, name: string!, sectionName: string }
rules:
- { rule: self.group == 'gateway.networking.k8s.io', message: the group of a target is gateway.networking.k8s.io }
";

/// `targetSelectors[]` of the policies of Envoy Gateway.
const POLICY_TARGET_SELECTOR: &str = "
fields:
  group: { type: string, default: gateway.networking.k8s.io }
  kind: string!
  matchLabels: strings
  matchExpressions:
    type: array
    items:
      fields:
        key: { type: string, minLength: 1 }
        operator: { type: string, enum: [In, NotIn, Exists, DoesNotExist] }
        values: [string]
      required: [key, operator]
      rules:
      - rule: (self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)
        message: In and NotIn need values, Exists and DoesNotExist have none
  namespaces:
    fields:
      from: { type: string, enum: [Same, All, Selector], default: Same }
      selector: label-selector
    rules:
    - { rule: self.from != 'Selector' || has(self.selector), message: from Selector needs selector }
rules:
- { rule: self.group == 'gateway.networking.k8s.io', message: the group of a target is gateway.networking.k8s.io }
";

/// `patch` in `EnvoyProxy.spec.provider.kubernetes`.
const OBJECT_PATCH: &str =
    "{required: [value], fields: { type: { type: string, enum: [StrategicMerge, JSONMerge] }, value: map }}";

fn value_type(at: Cursor<'_, 'static>) -> Result<Type, String> {
    let flag = |name: &str| matches!(at.get(name).map(Cursor::value), Some(Value::Bool(true)));
    if flag("x-kubernetes-int-or-string") {
        return Ok(Type::IntOrString);
    }
    match at.get("type").and_then(Cursor::as_str) {
        Some(word) => named_type(word),
        None if at.get("fields").is_some() => Ok(Type::Object),
        // Schemas below `oneOf` and its kin have no type of their own; their properties still count.
        None => Ok(Type::Any),
    }
}

fn named_type(word: &str) -> Result<Type, String> {
    Ok(match word {
        "object" => Type::Object,
        "array" => Type::List,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        other => return Err(format!("the type {other} is not known")),
    })
}

fn limits(at: Cursor<'_, 'static>, out: &mut Schema) -> Result<(), String> {
    let int = |name: &str| match at.get(name).map(Cursor::value) {
        Some(Value::Int(value)) => Some(*value),
        _ => None,
    };
    let size = |names: [&str; 3]| names.into_iter().find_map(int).and_then(|value| u32::try_from(value).ok());
    let format = at.get("format").and_then(Cursor::as_str);
    let (lowest, highest) =
        if format == Some("int32") { (i32::MIN.into(), i32::MAX.into()) } else { (i64::MIN, i64::MAX) };
    out.limits = Limits {
        minimum: int("minimum").unwrap_or(lowest),
        maximum: int("maximum").unwrap_or(highest),
        least: size(["minLength", "minItems", "minProperties"]).unwrap_or(0),
        most: size(["maxLength", "maxItems", "maxProperties"]).unwrap_or(u32::MAX),
    };
    out.format = match format {
        None | Some("int32" | "int64") => None,
        Some("ipv4") => Some(Format::Ipv4),
        Some("ipv6") => Some(Format::Ipv6),
        Some("byte") => Some(Format::Base64),
        Some("date-time") => Some(Format::Timestamp),
        Some(other) => return Err(format!("the format {other} is not known")),
    };
    out.pattern = at.get("pattern").and_then(Cursor::as_str).map(Pattern::new);
    out.words = at.get("enum").into_iter().flat_map(Cursor::items).filter_map(word).collect();
    out.default = at.get("default").map(subtree);
    let names = at.get("x-kubernetes-list-map-keys").into_iter().flat_map(Cursor::items);
    out.list = match at.get("x-kubernetes-list-type").and_then(Cursor::as_str) {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(names.filter_map(Cursor::as_str).map(Into::into).collect()),
        _ => ListType::Atomic,
    };
    Ok(())
}

fn word(at: Cursor<'_, 'static>) -> Option<Word> {
    match at.value() {
        Value::String(text) => Some(Word::String((**text).into())),
        Value::Int(value) => Some(Word::Int(*value)),
        _ => None,
    }
}

fn rules(at: Cursor<'_, 'static>) -> Result<Box<[Rule]>, String> {
    let mut out = Vec::new();
    for rule in ["x-kubernetes-validations", "rules"].iter().filter_map(|word| at.get(word)).flat_map(Cursor::items) {
        let text = rule.get("rule").and_then(Cursor::as_str).ok_or("a rule has a text")?;
        // Rules about changes compare with the stored object; here is none.
        if text.contains("oldSelf") {
            continue;
        }
        let program = Program::compile(text).map_err(|error| format!("{text}: {error}"))?;
        let message = rule.get("message").and_then(Cursor::as_str).unwrap_or(text);
        out.push(Rule {
            program,
            message: message.into(),
            #[cfg(test)]
            text: text.into(),
        });
    }
    Ok(out.into())
}

fn several(at: Cursor<'_, 'static>, name: &str) -> Result<Box<[Schema]>, String> {
    at.get(name).into_iter().flat_map(Cursor::items).map(schema).collect()
}

/// A value as a tree of its own.
fn subtree(at: Cursor<'_, 'static>) -> Tree<'static> {
    let end = at.tree.node(at.index).map_or(at.index, |node| node.end);
    let nodes = at.tree.nodes.get(at.index as usize..end as usize).unwrap_or_default();
    Tree { nodes: nodes.iter().map(|node| Node { end: node.end - at.index, ..node.clone() }).collect() }
}

fn sort(properties: &mut [Property]) {
    properties.sort_by(|one, two| by_length(&one.name, &two.name));
}

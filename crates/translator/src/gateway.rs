//! `Gateway`: whether it is ours, its addresses, parameters and listeners; what of it reaches routes and proxies.

pub(crate) mod address;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use api::gateway::Protocol;
use api::reference::{GatewayScope, SecretRef};
use api::{Gateway, Kind, Labels, ObjectKey};
use ir::FleetName;

use self::address::AddressPlan;
use crate::backend::{BackendFault, SecretPart, SecretUse};
use crate::envoy_proxy::kubernetes::strings;
use crate::envoy_proxy::{Named, ProxyRules};
use crate::gateway_class::{self, ClassView};
use crate::http_route::ListenerPort;
use crate::key::{ClusterTarget, Transport};
use crate::listener::{self, ListenerPlan, Namespaces, Owner, PortBound, Refusal, RouteScope, Socket};
use crate::listener_set::{self, SetDraft, SetPlan};
use crate::reference::{Grants, Permit, Reference, permit};
use crate::secret;

/// What a Gateway asks of the tables.
pub(crate) trait Lookup: Grants {
    /// Whose class it is.
    fn class(&mut self, name: &str) -> ClassOf;
    /// Whether a certificate or bundle is there and good; none if it is not there.
    fn secret(&mut self, permit: &Permit, part: SecretPart) -> Option<secret::Verdict>;
    /// Returns true if proxies refused the content that a secret has now, and have none in its place.
    fn lacks_secret(&mut self, fleet: &FleetName, wanted: &SecretUse) -> bool;
    /// Whether there can be objects of this kind at all.
    fn is_served(&mut self, object: &ObjectKey) -> bool;
    /// Whether a backend is there and can be reached.
    fn backend(&mut self, permit: &Permit, port: Option<u16>) -> Result<ClusterTarget, BackendFault>;
    /// Whether an `EnvoyProxy` is there and can be used.
    fn envoy_proxy(&mut self, permit: &Permit) -> Named;
    /// Whether an `EnvoyProxy` that is there replaces those behind it.
    fn stands_alone(&mut self, proxy: &ObjectKey) -> bool;
    /// Whether these can be combined with each other and with the static configuration; if not, why.
    fn combine(&mut self, parameters: &Parameters) -> Result<(), Arc<str>>;
    /// An older Gateway that has a port of one of these addresses (empty: all) on the same machine.
    fn rival(&mut self, gateway: &ObjectKey, socket: Socket, addresses: &[IpAddr]) -> Option<ObjectKey>;
    /// The bound that keeps a port of this machine from the listeners of a namespace on a Gateway.
    fn port_bound(&mut self, gateway: &ObjectKey, namespace: &str, socket: Socket) -> Option<PortBound>;
    /// The `ListenerSet`s of a Gateway, in order of precedence.
    fn sets(&mut self, gateway: &ObjectKey) -> Vec<Arc<SetDraft>>;
    /// What the operator lets objects of proxies carry.
    fn rules(&mut self) -> Arc<ProxyRules>;
    /// Who we are.
    fn controller(&mut self) -> Arc<str>;
    /// Whether proxies run on this machine.
    fn is_file_mode(&self) -> bool;
}

/// Whose a class is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClassOf {
    /// Ours.
    Ours(Arc<ClassView>),
    /// It is not there, and we take Gateways without a class (file mode).
    Missing,
    /// Somebody else's.
    Foreign,
}

/// A Gateway of ours, judged from objects alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GatewayPlan {
    pub(crate) fleet: FleetName,
    pub(crate) generation: i64,
    pub(crate) controller: Arc<str>,
    /// The class that is not there, where we took the Gateway all the same.
    pub(crate) missing_class: Option<Arc<str>>,
    /// The `EnvoyProxy` that it names itself, usable or not.
    pub(crate) named: Option<ObjectKey>,
    /// What objects that are made for it carry.
    pub(crate) marks: Arc<Marks>,
    /// The `EnvoyProxy` objects that hold.
    pub(crate) parameters: Parameters,
    /// `Accepted` for the Gateway as a whole: none if only the listeners decide.
    pub(crate) refused: Option<Refusal>,
    /// The addresses that it asks for.
    pub(crate) addresses: Arc<AddressPlan>,
    /// From where its addresses are reachable is told: the installed API has a field for it.
    pub(crate) tells_routability: bool,
    /// It cannot be served as it is. In a cluster its proxies and what they serve stay until it can again: settings that cannot be read are
    /// no wish to end.
    pub(crate) stands_still: bool,
    /// The same with files: nothing of it reaches a proxy.
    pub(crate) withdrawn: bool,
    /// Shown to backends on every TLS connection, unless they have one of their own.
    pub(crate) client_certificate: Option<SecretUse>,
    /// `ResolvedRefs` for references of the Gateway itself.
    pub(crate) unresolved: Option<Refusal>,
    /// Some port lets clients through whose certificate cannot be verified.
    pub(crate) insecure_clients: bool,
    /// Those of the Gateway and then those of the sets that it takes, in order of precedence.
    pub(crate) listeners: Vec<ListenerPlan>,
    /// How many of them are the Gateway's own.
    own: usize,
    /// It takes routes that name no Gateway.
    pub(crate) is_default: bool,
    /// It takes sets from somewhere.
    pub(crate) takes_sets: bool,
    /// All that name it as their parent, in order of precedence.
    sets: Vec<Arc<SetDraft>>,
    /// Written and without effect: field and words.
    pub(crate) warnings: Vec<(String, String)>,
}

/// Of the listeners of a Gateway or a set.
pub(crate) const NO_LISTENER: &str = "no listener can be used";

/// What objects that are made for a Gateway carry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) class: Arc<str>,
    pub(crate) uid: Option<Arc<str>>,
    pub(crate) labels: BTreeMap<Arc<str>, Arc<str>>,
    pub(crate) annotations: BTreeMap<Arc<str>, Arc<str>>,
}

impl Marks {
    /// Returns what the operator lets the Gateway's objects carry, and warnings of the rest.
    fn of(gateway: &Gateway, rules: &ProxyRules) -> (Self, Vec<(String, String)>) {
        let infrastructure = gateway.spec.infrastructure.as_deref();
        let mut warnings = Vec::new();
        let mut permitted = |(field, list): (&str, &str), written: Option<&Labels>, allowed: Option<&[Box<str>]>| {
            let mut written = written.map(strings).unwrap_or_default();
            let Some(allowed) = allowed else { return written };
            let is_in = |name: &str, entry: &str| name == entry || entry.ends_with('/') && name.starts_with(entry);
            let all = written.len();
            written.retain(|name, _| allowed.iter().any(|entry| is_in(name, entry)));
            if written.len() < all {
                let text = format!(
                    "{} of {all} have no effect: they are not among provider.kubernetes.deploy.{list} of the static configuration, where the operator allows them",
                    all - written.len()
                );
                warnings.push((format!("spec.infrastructure.{field}"), text));
            }
            written
        };
        let labels =
            permitted(("labels", "allowedLabels"), infrastructure.map(|found| &found.labels), rules.labels.as_deref());
        let annotations = permitted(
            ("annotations", "allowedAnnotations"),
            infrastructure.map(|found| &found.annotations),
            rules.annotations.as_deref(),
        );
        let class = (&*gateway.spec.gateway_class_name).into();
        (Self { class, uid: gateway.meta.uid().map(Arc::from), labels, annotations }, warnings)
    }
}

/// The `EnvoyProxy` objects that hold for a Gateway, both usable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub(crate) own: Option<ObjectKey>,
    pub(crate) class: Option<ObjectKey>,
}

/// Judges a Gateway; none if it is not ours.
pub(crate) fn plan(lookup: &mut impl Lookup, key: &ObjectKey, gateway: &Gateway) -> Option<GatewayPlan> {
    let class_name = &*gateway.spec.gateway_class_name;
    let (class, missing_class) = match lookup.class(class_name) {
        ClassOf::Ours(class) => (Some(class), None),
        ClassOf::Missing => (None, Some(Arc::from(class_name))),
        ClassOf::Foreign => return None,
    };
    let file_mode = lookup.is_file_mode();
    let addresses = AddressPlan::of(gateway, file_mode);
    let own = own_parameters(lookup, key, gateway);
    let named = own.as_ref().ok().and_then(|own| own.as_ref()).map(|own| own.object.clone());
    let parameters = parameters(lookup, own, class.as_deref());
    let refused = refusal(gateway, &parameters);
    let stands_still = refused.is_some() || addresses.is_void();
    let mut listeners: Vec<_> =
        gateway.spec.listeners.iter().map(|listener| listener::check(lookup, key, listener)).collect();
    let drafts = lookup.sets(key);
    let mut owned = vec![listeners.len()];
    for draft in drafts.iter().filter(|draft| draft.is_admitted) {
        listeners.extend(draft.listeners.iter().cloned());
        owned.push(draft.listeners.len());
    }
    listener::judge_together(lookup, (key, gateway), &addresses.bound(), &mut listeners, owned.iter().copied());
    let (client_certificate, unresolved) = backend_certificate(lookup, key, gateway);
    let no_ports: Vec<_> = listener::ports_without_clients(gateway, &listeners).collect();
    let (marks, unmarked) = Marks::of(gateway, &lookup.rules());
    Some(GatewayPlan {
        fleet: fleet(key),
        generation: gateway.meta.generation,
        controller: lookup.controller(),
        missing_class,
        named,
        marks: Arc::new(marks),
        parameters: parameters.unwrap_or_default(),
        refused,
        addresses: Arc::new(addresses),
        tells_routability: gateway_class::knows_routability(class.as_deref(), file_mode),
        stands_still,
        withdrawn: stands_still && file_mode,
        client_certificate,
        unresolved,
        insecure_clients: listener::is_insecure(gateway),
        own: gateway.spec.listeners.len(),
        listeners,
        is_default: gateway.spec.default_scope == Some(GatewayScope::All),
        takes_sets: listener_set::allowed(gateway) != Namespaces::None,
        sets: drafts,
        warnings: warnings(gateway, file_mode).into_iter().chain(no_ports).chain(unmarked).collect(),
    })
}

/// Whether anything of a Gateway can reach a proxy: only then does it hold its ports against others.
pub(crate) fn can_serve(lookup: &mut impl Lookup, key: &ObjectKey, gateway: &Gateway) -> bool {
    let class = match lookup.class(&gateway.spec.gateway_class_name) {
        ClassOf::Ours(class) => Some(class),
        ClassOf::Missing => None,
        ClassOf::Foreign => return false,
    };
    let own = own_parameters(lookup, key, gateway);
    let parameters = parameters(lookup, own, class.as_deref());
    refusal(gateway, &parameters).is_none() && !AddressPlan::of(gateway, lookup.is_file_mode()).is_void()
}

/// Why a Gateway as a whole cannot be served.
fn refusal(gateway: &Gateway, parameters: &Result<Parameters, Arc<str>>) -> Option<Refusal> {
    if let Some(refusal) = address::unsupported(gateway) {
        return Some(refusal);
    }
    let text = parameters.as_ref().err()?;
    let own = gateway.spec.infrastructure.as_ref().is_some_and(|found| found.parameters_ref.is_some());
    let at = if own { "spec.infrastructure.parametersRef.name" } else { "spec.gatewayClassName" };
    Some(Refusal::new("InvalidParameters", text.clone()).at(at))
}

/// An `EnvoyProxy`, and who names it: a Gateway or a class.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NamedSettings {
    pub(crate) settings: ObjectKey,
    pub(crate) by: ObjectKey,
}

impl GatewayPlan {
    /// The settings whose words count most: the Gateway's own, else those of its class.
    pub(crate) fn settings_in_force(&self, gateway: &ObjectKey) -> Option<NamedSettings> {
        let own = self.parameters.own.clone().map(|settings| (settings, gateway.clone()));
        let of_class = || {
            let class = ObjectKey::of(Kind::GatewayClass, "", &self.marks.class);
            self.parameters.class.clone().map(|settings| (settings, class))
        };
        own.or_else(of_class).map(|(settings, by)| NamedSettings { settings, by })
    }

    /// Listeners that reach proxies.
    pub(crate) fn live_listeners(&self) -> &[ListenerPlan] {
        if self.withdrawn { &[] } else { &self.listeners }
    }

    /// Listeners that reach proxies by the set that they are in; none: the Gateway itself.
    pub(crate) fn live_by_owner(&self) -> impl Iterator<Item = (Option<&ObjectKey>, &[ListenerPlan])> {
        let own = std::iter::once((None, self.own_listeners()));
        let sets = self.sets().filter(|(draft, _)| draft.is_admitted);
        let sets = sets.map(|(draft, listeners)| (Some(&draft.key), listeners));
        own.chain(sets).filter(|_| !self.withdrawn)
    }

    /// Whom its listeners ask about requests, whatever their routes.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &ClusterTarget> {
        let served = self.live_listeners().iter().filter(|listener| listener.serves());
        served.flat_map(|listener| listener.gate.clusters.iter())
    }

    /// The Gateway's own listeners.
    pub(crate) fn own_listeners(&self) -> &[ListenerPlan] {
        self.listeners.get(..self.own).unwrap_or_default()
    }

    /// Its `ListenerSet`s, those that it does not take too, with what became of their listeners.
    pub(crate) fn sets(&self) -> impl Iterator<Item = (&SetDraft, &[ListenerPlan])> {
        let mut rest = self.listeners.get(self.own..).unwrap_or_default();
        self.sets.iter().map(move |draft| {
            if !draft.is_admitted {
                return (&**draft, &*draft.listeners);
            }
            let (own, later) = rest.split_at_checked(draft.listeners.len()).unwrap_or((rest, &[]));
            rest = later;
            (&**draft, own)
        })
    }

    /// What routes may know of the Gateway and of its sets.
    pub(crate) fn scopes(&self, key: &ObjectKey) -> Vec<(ObjectKey, Arc<RouteScope>)> {
        let owner = Arc::new(Owner { fleet: self.fleet.clone(), controller: self.controller.clone() });
        let own = (key.clone(), Arc::new(RouteScope::of(&owner, self.own_listeners())));
        let sets = self.sets().map(|(draft, listeners)| {
            let mut scope = RouteScope::of(&owner, listeners);
            if !draft.is_admitted {
                scope.refuse(&draft.refusal().text);
            }
            (draft.key.clone(), Arc::new(scope))
        });
        std::iter::once(own).chain(sets).collect()
    }

    /// What became of the sets.
    pub(crate) fn set_plans(&self) -> Vec<(ObjectKey, Arc<SetPlan>)> {
        let plan = |draft: &SetDraft, listeners: &[ListenerPlan]| Arc::new(SetPlan::of(draft, listeners, self));
        self.sets().map(|(draft, listeners)| (draft.key.clone(), plan(draft, listeners))).collect()
    }

    /// Why the Gateway is not accepted, as far as objects say it.
    pub(crate) fn not_accepted(&self) -> Option<Refusal> {
        let nothing = || Refusal::new("ListenersNotValid", NO_LISTENER);
        let any = self.own_listeners().iter().any(|listener| listener.not_accepted().is_none());
        self.refused.clone().or_else(|| (!any).then(nothing))
    }

    /// Ports and protocols, in the order of the scopes.
    pub(crate) fn ports(&self, key: &ObjectKey) -> Vec<(ObjectKey, Arc<[ListenerPort]>)> {
        let port = |listener: &ListenerPlan| ListenerPort { port: listener.port, tls: listener.is_tls() };
        let own = (key.clone(), self.own_listeners().iter().map(port).collect());
        let sets = self.sets().map(|(draft, listeners)| (draft.key.clone(), listeners.iter().map(port).collect()));
        std::iter::once(own).chain(sets).collect()
    }

    /// Ports of a transport that are bound, sorted.
    pub(crate) fn bound_ports(&self, transport: Transport) -> Vec<u16> {
        let bound = self.live_listeners().iter().filter(|listener| listener.refused.is_none());
        let sockets = bound.map(ListenerPlan::socket).filter(|(_, of)| *of == transport);
        let mut ports: Vec<u16> = sockets.map(|(port, _)| port).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// Returns the secrets for the listeners, sorted. One that proxies refused is published all the same, though nothing names it: so its next content is noticed.
    pub(crate) fn secrets(&self) -> Vec<SecretUse> {
        let serving = self.live_listeners().iter().filter(|listener| listener.serves() || listener.lacks_secret);
        let mut wanted: Vec<SecretUse> = serving
            .flat_map(|listener| {
                listener.certificates.iter().chain(listener.client.as_ref().map(|client| &client.bundle)).cloned()
            })
            .collect();
        wanted.extend(self.client_certificate.clone());
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }
}

/// The fleet of a Gateway: `<namespace>/<name>`.
pub(crate) fn fleet(gateway: &ObjectKey) -> FleetName {
    format!("{}/{}", gateway.namespace(), gateway.name()).into()
}

/// The Gateway of a [`fleet`].
pub(crate) fn of_fleet(fleet: &FleetName) -> Option<ObjectKey> {
    let (namespace, name) = fleet.0.split_once('/')?;
    Some(ObjectKey::of(Kind::Gateway, namespace, name))
}

/// Secrets and bundles that a Gateway may use: only these are parsed.
pub(crate) fn secret_uses(gateway: &Gateway) -> Vec<ObjectKey> {
    let namespace = gateway.meta.namespace();
    let key = |reference: Reference<'_>| reference.object(namespace);
    let certificates = listener::certificate_refs(&gateway.spec.listeners).map(Reference::from);
    let frontend = gateway.spec.tls.iter().filter_map(|tls| tls.frontend.as_ref());
    let configs = frontend.flat_map(|frontend| {
        std::iter::once(&frontend.default_tls).chain(frontend.per_port.iter().map(|entry| &entry.tls))
    });
    let validations = configs.filter_map(|config| config.validation.as_ref());
    let bundles = validations.flat_map(|validation| validation.ca_certificate_refs.iter()).map(Reference::from);
    let own = client_certificate_ref(gateway).map(Reference::from);
    certificates.chain(bundles).chain(own).map(key).collect()
}

/// Addresses to bind; empty is all.
pub(crate) fn bind_addresses(gateway: &Gateway) -> Vec<IpAddr> {
    AddressPlan::of(gateway, true).bound()
}

/// A protocol that we bind a port for.
pub(crate) fn is_served(protocol: &Protocol) -> bool {
    !matches!(protocol, Protocol::Unknown(_))
}

/// The settings that hold: the Gateway's own, and those of its class; or why there are none. The class has a say only if it is asked: one
/// whose own settings are broken does no harm to a Gateway that does without them.
fn parameters(
    lookup: &mut impl Lookup,
    own: Result<Option<Named>, Arc<str>>,
    class: Option<&ClassView>,
) -> Result<Parameters, Arc<str>> {
    let own = own?.map(|named| named.usable.map(|()| named.object)).transpose()?;
    let class = class.map_or(Ok(None), ClassView::settings);
    let alone = own.as_ref().is_some_and(|own| lookup.stands_alone(own));
    let class = if alone { class.unwrap_or_default() } else { class? };
    let parameters = Parameters { own, class };
    lookup.combine(&parameters).map(|()| parameters)
}

/// What the Gateway names as its own settings, or why it can name nothing there.
fn own_parameters(lookup: &mut impl Lookup, key: &ObjectKey, gateway: &Gateway) -> Result<Option<Named>, Arc<str>> {
    let infrastructure = gateway.spec.infrastructure.as_deref();
    let Some(reference) = infrastructure.and_then(|infrastructure| infrastructure.parameters_ref.as_ref()) else {
        return Ok(None);
    };
    let permit = permit(lookup, key, Reference::from(reference)).map_err(|fault| fault.text)?;
    let target = permit.target();
    if target.kind() != Some(Kind::EnvoyProxy) {
        let (group, kind) = (&reference.group, &reference.kind);
        return Err(format!("parametersRef names {kind} of group {group:?}, only EnvoyProxy can be used").into());
    }
    Ok(Some(lookup.envoy_proxy(&permit)))
}

/// The certificate for backends, or why there is none: then none is presented, and everything else goes on.
fn backend_certificate(
    lookup: &mut impl Lookup,
    key: &ObjectKey,
    gateway: &Gateway,
) -> (Option<SecretUse>, Option<Refusal>) {
    let reference = client_certificate_ref(gateway);
    match reference.map(|reference| listener::certificate(lookup, key, reference)) {
        None => (None, None),
        Some(Ok((wanted, _))) if lookup.lacks_secret(&fleet(key), &wanted) => {
            let refusal = Refusal::new("InvalidClientCertificateRef", secret::refused_by_proxies(&wanted));
            let refusal = refusal.naming(wanted.object.clone());
            (Some(wanted), Some(refusal.at("spec.tls.backend.clientCertificateRef.name")))
        }
        // The Secret has a problem where the pair before is shown.
        Some(Ok((wanted, _))) => (Some(wanted), None),
        Some(Err(mut refusal)) => {
            if refusal.reason != "RefNotPermitted" {
                refusal.reason = "InvalidClientCertificateRef";
            }
            (None, Some(refusal.at("spec.tls.backend.clientCertificateRef.name")))
        }
    }
}

fn client_certificate_ref(gateway: &Gateway) -> Option<&SecretRef> {
    gateway.spec.tls.as_deref()?.backend.as_ref()?.client_certificate_ref.as_ref()
}

fn warnings(gateway: &Gateway, file_mode: bool) -> Vec<(String, String)> {
    let spec = &gateway.spec;
    let mut found = Vec::new();
    let mut add = |there: bool, path: String, text: &str| {
        if there {
            found.push((path, text.to_owned()));
        }
    };
    let odd = matches!(spec.default_scope, Some(GatewayScope::Unknown(_)));
    add(odd, "spec.defaultScope".into(), "this word is not known, All is");
    for (field, there) in spec.infrastructure.iter().flat_map(|infrastructure| {
        [("labels", !infrastructure.labels.is_empty()), ("annotations", !infrastructure.annotations.is_empty())]
    }) {
        add(
            there && file_mode,
            format!("spec.infrastructure.{field}"),
            "nothing is generated that could carry them, ignored",
        );
    }
    found.extend(listener_set::warnings(gateway));
    found.extend(listener::warnings(&spec.listeners));
    found
}

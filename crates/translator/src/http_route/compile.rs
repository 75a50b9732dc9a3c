//! Rules: matches, filters and backends of a route, checked once, then written as route entries.

use std::sync::Arc;
use std::time::Duration;

use api::duration::DurationText;
use api::grpc_route::{GrpcRouteMatch, GrpcRouteRule};
use api::http_route::{
    HeaderMatch, HttpBackendRef, HttpRouteFilter, HttpRouteMatch, HttpRouteRetry, HttpRouteRule, HttpRouteTimeouts,
    SessionPersistence,
};
use api::stream_route::StreamRule;
use api::{Fault, Kind, ObjectKey, RouteObject};
use hashbrown::HashMap;
use ir::Route;
use ir::route::{Action, Backend, Destination, Forward, MaybeFilters, Respond, Retry, RouteMatch, Session};

use super::filter::{Draft, UNSUPPORTED, draft};
use super::matching::{self, Compiled};
use super::spelling;
use super::target::{Resolved, Targets};
use super::{Entry, Finding, ListenerPort, Lookup, Unusable};
use crate::backend::Treatment;
use crate::key::{BackendKey, Place, Rank, route_name, short_hash};
use crate::route_budget;
use crate::session::Persistence;

/// By what the entries of one listener differ from those of another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Flavour {
    /// What a redirect needs; none where no redirect looks at it.
    pub(super) port: Option<ListenerPort>,
    /// TLS of clients goes to the backend as it comes.
    pub(super) passes_tls: bool,
}

/// The rules of a route, checked.
pub(super) struct Rules<'r> {
    rules: Vec<Rule<'r>>,
    pub(super) unusable: Option<Box<Unusable>>,
    /// Rules that have nothing to forward to, in words.
    pub(super) idle: Box<[Arc<str>]>,
    /// Entries differ by the listener's port.
    pub(super) redirects: bool,
}

/// A rule as written, whatever its kind.
struct Written<'r> {
    name: Option<&'r str>,
    matches: Matches<'r>,
    filters: &'r [HttpRouteFilter],
    backend_refs: &'r [HttpBackendRef],
    timeouts: Option<&'r HttpRouteTimeouts>,
    retry: Option<&'r HttpRouteRetry>,
    session: Option<&'r SessionPersistence>,
    fault: Option<&'r Fault>,
}

enum Matches<'r> {
    Http(&'r [HttpRouteMatch]),
    Grpc(&'r [GrpcRouteMatch]),
    /// Every connection.
    All,
}

impl Matches<'_> {
    fn compiled(&self) -> Vec<Compiled> {
        match self {
            // No match at all is one that takes everything (Gateway API `HTTPRouteRule.matches`, `GRPCRouteRule.matches`).
            Self::Http([]) | Self::All => vec![matching::http(&HttpRouteMatch::default())],
            Self::Grpc([]) => vec![matching::grpc(&GrpcRouteMatch::default())],
            Self::Http(matches) => matches.iter().map(matching::http).collect(),
            Self::Grpc(matches) => matches.iter().map(matching::grpc).collect(),
        }
    }

    /// Returns what is to be said of the match of this number: what no request has.
    fn remarks(&self, number: u16) -> Vec<spelling::Remark> {
        match self {
            Self::Http(matches) => matches.get(usize::from(number)).map(spelling::remarks).unwrap_or_default(),
            _ => spelling::of_headers(self.headers(number)).collect(),
        }
    }

    /// The headers of the match of this number.
    fn headers(&self, number: u16) -> &[HeaderMatch] {
        let number = usize::from(number);
        let headers = match self {
            Self::Http(matches) => matches.get(number).map(|matched| &*matched.headers),
            Self::Grpc(matches) => matches.get(number).map(|matched| &*matched.headers),
            Self::All => None,
        };
        headers.unwrap_or_default()
    }
}

impl<'r> From<&'r HttpRouteRule> for Written<'r> {
    fn from(rule: &'r HttpRouteRule) -> Self {
        Self {
            name: rule.name.as_deref(),
            matches: Matches::Http(&rule.matches),
            filters: &rule.filters,
            backend_refs: &rule.backend_refs,
            timeouts: rule.timeouts.as_deref(),
            retry: rule.retry.as_deref(),
            session: rule.session_persistence.as_deref(),
            fault: rule.fault.as_deref(),
        }
    }
}

impl<'r> From<&'r GrpcRouteRule> for Written<'r> {
    fn from(rule: &'r GrpcRouteRule) -> Self {
        Self {
            name: rule.name.as_deref(),
            matches: Matches::Grpc(&rule.matches),
            filters: &rule.filters,
            backend_refs: &rule.backend_refs,
            timeouts: None,
            retry: None,
            session: rule.session_persistence.as_deref(),
            fault: rule.fault.as_deref(),
        }
    }
}

impl<'r> From<&'r StreamRule> for Written<'r> {
    fn from(rule: &'r StreamRule) -> Self {
        Self {
            name: rule.name.as_deref(),
            matches: Matches::All,
            filters: &[],
            backend_refs: &rule.backend_refs,
            timeouts: None,
            retry: None,
            session: None,
            fault: rule.fault.as_deref(),
        }
    }
}

impl Written<'_> {
    /// The fields of it that mean nothing where a redirect answers, and why.
    fn of_forwarding(&self) -> impl Iterator<Item = (String, &'static str)> {
        const SENDS_NOTHING: &str =
            "this has no effect: the rule answers with a redirect and sends nothing to a backend; leave it out";
        const SAYS_NOTHING: &str = "this has no effect: the rule answers with a redirect, and proxies say nothing of origins there; leave it out";
        let fields = [
            ("timeouts", self.timeouts.is_some()),
            ("retry", self.retry.is_some()),
            ("sessionPersistence", self.session.is_some()),
        ];
        let fields = fields.into_iter().filter(|(_, written)| *written);
        let filters = self.filters.iter().enumerate().filter_map(|(at, filter)| {
            let why = match filter {
                HttpRouteFilter::RequestMirror(_) => SENDS_NOTHING,
                HttpRouteFilter::Cors(_) => SAYS_NOTHING,
                _ => return None,
            };
            Some((format!("filters[{at}]"), why))
        });
        fields.map(|(field, _)| (field.to_owned(), SENDS_NOTHING)).chain(filters)
    }
}

fn written(route: &RouteObject) -> Vec<Written<'_>> {
    match route {
        RouteObject::TlsRoute(route) => route.spec.rules.iter().map(Written::from).collect(),
        RouteObject::TcpRoute(route) => route.spec.rules.iter().map(Written::from).collect(),
        RouteObject::UdpRoute(route) => route.spec.rules.iter().map(Written::from).collect(),
        RouteObject::HttpRoute(route) => route.spec.rules.iter().map(Written::from).collect(),
        RouteObject::GrpcRoute(route) => route.spec.rules.iter().map(Written::from).collect(),
    }
}

/// Returns the names that the rules of a route have in Envoy, in the order of the route.
#[must_use]
pub fn rule_names(route: &RouteObject) -> Vec<Arc<str>> {
    let usable = |rule: &Written<'_>| -> Vec<RouteMatch> {
        rule.matches.compiled().into_iter().filter_map(|one| one.ok().map(|(_, matched)| matched)).collect()
    };
    let key = &route.meta().key;
    let base: Arc<str> = route_name(key).into();
    written(route).iter().map(|rule| name_of((&base, key), rule, usable(rule).iter())).collect()
}

/// Returns the name of a rule among those of all routes: `<namespace>/<route>/<rule>`, with the kind in front where it is not an `HTTPRoute`. A rule without a name
/// has a hash of its matches for one, so that a rule which is put in front of it changes nothing. Connections and datagrams have the name of their route.
fn name_of<'m>(
    (base, key): (&Arc<str>, &ObjectKey),
    rule: &Written<'_>,
    matches: impl Iterator<Item = &'m RouteMatch>,
) -> Arc<str> {
    match rule.name {
        Some(name) => format!("{base}/{name}").into(),
        None if key.kind().is_some_and(Kind::is_stream_route) => Arc::clone(base),
        None => {
            let texts: Vec<String> = matches.filter_map(|matched| serde_json::to_string(matched).ok()).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            format!("{base}/{}", short_hash(&texts)).into()
        }
    }
}

struct Rule<'r> {
    name: Arc<str>,
    /// The name that sessions of its clients depend on.
    of_sessions: Arc<str>,
    number: u16,
    matches: Vec<(u16, Rank, RouteMatch)>,
    filters: Draft<'r>,
    answer: Answer<'r>,
}

enum Answer<'r> {
    /// The rule cannot be used: 500, and the reason.
    Fail(Arc<str>),
    Redirect,
    Forward(Box<Targeted<'r>>),
}

struct Targeted<'r> {
    destinations: Vec<Sent<'r>>,
    timeouts: Timeouts,
    /// What the rule says of sessions, for backends that say nothing themselves.
    persistence: Option<Persistence>,
}

struct Sent<'r> {
    backend: Backend,
    /// Whose cluster that is.
    whose: Option<BackendKey>,
    /// The same for TLS that is passed through.
    as_it_comes: Backend,
    weight: u32,
    filters: Draft<'r>,
    treatment: Option<Arc<Treatment>>,
    /// Nobody is there: who has a session with it gets another. Known only where there may be one, of several backends.
    empty: bool,
}

#[derive(Default)]
struct Timeouts {
    request: Option<Duration>,
    attempt: Option<Duration>,
    retry: Option<Retry>,
}

/// What is wrong with rules, gathered for the `PartiallyInvalid` and `Accepted` conditions.
struct Losses {
    reason: Option<&'static str>,
    texts: Vec<String>,
    /// Rules that answer nothing but an error, or that match nothing.
    lost: usize,
    answer: Answers,
}

/// What becomes of what cannot be sent on, in words.
#[derive(Clone, Copy)]
pub(crate) struct Answers {
    /// All that a rule takes.
    pub(crate) all: &'static str,
    /// The share of a backend.
    share: &'static str,
}

impl Answers {
    /// Words for routes of a kind.
    pub(crate) fn of(kind: Option<Kind>) -> Self {
        match kind {
            Some(Kind::GrpcRoute) => {
                Self { all: "calls get UNAVAILABLE", share: "its share of the calls gets UNAVAILABLE" }
            }
            Some(Kind::UdpRoute) => {
                Self { all: "datagrams are dropped", share: "its share of the datagrams is dropped" }
            }
            Some(kind) if kind.is_stream_route() => {
                Self { all: "connections are closed", share: "its share of the connections is closed" }
            }
            _ => Self { all: "requests get 500", share: "its share of the requests gets 500" },
        }
    }
}

impl Losses {
    /// What is wrong there, and what becomes of what it is about.
    fn add(&mut self, reason: &'static str, path: &str, text: &str, consequence: &str) {
        self.reason.get_or_insert(reason);
        self.texts.push(format!("{path}: {text} ({consequence})"));
    }
}

/// Checks every rule. A rule that cannot be used answers 500; a match that cannot be used takes nothing.
pub(super) fn compile<'r, L: Lookup>(
    targets: &mut Targets<'_, L>,
    route: &'r RouteObject,
    problems: &mut Vec<Finding>,
) -> Rules<'r> {
    let answer = Answers::of(route.meta().key.kind());
    let mut losses = Losses { reason: None, texts: Vec::new(), lost: 0, answer };
    let key = &route.meta().key;
    let base: Arc<str> = route_name(key).into();
    let written = written(route);
    let mut rules = Vec::with_capacity(written.len());
    let mut idle = Vec::new();
    for (number, rule) in (0_u16..).zip(&written) {
        targets.enter_rule(rule.name);
        let matches = matches(rule, number, &mut losses, problems);
        let name = name_of((&base, key), rule, matches.iter().map(|(_, _, matched)| matched));
        // A match that is edited ends no session.
        let of_sessions = Arc::clone(if rule.name.is_some() { &name } else { &base });
        let (filters, answer) = match rule_body(targets, rule, number, &matches, (&mut losses, problems)) {
            Ok(body) => body,
            Err(text) => {
                losses.lost += usize::from(!matches.is_empty());
                (Draft::default(), Answer::Fail(text.into()))
            }
        };
        if let Some(none) = without_backends(rule, &answer) {
            let text = format!("{none}: {}", losses.answer.all);
            idle.push(format!("spec.rules[{number}].backendRefs: {text}").into());
            problems.push(Finding::warning(format!("spec.rules[{number}].backendRefs"), text));
        }
        losses.lost += usize::from(matches.is_empty());
        rules.push(Rule { name, of_sessions, number, matches, filters, answer });
    }
    if !key.kind().is_some_and(Kind::is_stream_route) {
        problems.extend(unreached(&rules));
    }
    problems.extend(losses.texts.iter().map(|text| {
        let (path, text) = text.split_once(": ").unwrap_or(("spec", text));
        Finding::error(path, text)
    }));
    let all = losses.lost == rules.len();
    let unusable = losses.reason.map(|reason| {
        let text = format!("Dropped Rule: {}", losses.texts.join("; "));
        Box::new(Unusable { reason, text: text.into(), all })
    });
    let redirects = rules.iter().any(Rule::redirects);
    Rules { rules, unusable, idle: idle.into(), redirects }
}

/// Returns the reason that a rule which forwards has nothing to forward to; none if it has.
fn without_backends(rule: &Written<'_>, answer: &Answer<'_>) -> Option<&'static str> {
    let Answer::Forward(targeted) = answer else { return None };
    let none = if rule.backend_refs.is_empty() { "the rule has no backends" } else { "all backend weights are 0" };
    (targeted.total() == 0).then_some(none)
}

impl Rules<'_> {
    /// The entries in the order of the route.
    pub(super) fn entries(&self, flavour: Flavour) -> Arc<[Entry]> {
        let entries = self.rules.iter().flat_map(|rule| {
            rule.matches.iter().map(move |(number, rank, matched)| {
                let place = Place { rule: rule.number, matched: *number };
                let route = rule.entry(matched, flavour);
                Entry { rank: *rank, place, weight: route_budget::weight(&route), route: Arc::new(route) }
            })
        });
        entries.collect()
    }
}

impl Rule<'_> {
    fn redirects(&self) -> bool {
        match &self.answer {
            Answer::Fail(_) => false,
            Answer::Redirect => true,
            Answer::Forward(targeted) => targeted.destinations.iter().any(|sent| sent.filters.redirects()),
        }
    }

    fn entry(&self, matched: &RouteMatch, flavour: Flavour) -> Route {
        let action = match &self.answer {
            Answer::Fail(reason) => fail(matched, reason.clone()),
            Answer::Redirect => self.filters.redirect(&matched.path, flavour.port).map_or_else(
                || fail(matched, "a redirect without settings".into()),
                |redirect| Action::Redirect(Box::new(redirect)),
            ),
            Answer::Forward(targeted) => targeted.forward(matched, flavour, &self.of_sessions),
        };
        let filters = match &self.answer {
            Answer::Fail(_) => MaybeFilters::default(),
            _ => self.filters.finish(&matched.path, None),
        };
        Route { name: self.name.clone(), matches: matched.clone(), action, filters }
    }
}

impl Targeted<'_> {
    fn total(&self) -> u64 {
        self.destinations.iter().map(|sent| u64::from(sent.weight)).sum()
    }

    /// The filters of a destination with what its backend asks for.
    fn treated(&self, sent: &Sent<'_>, mut filters: MaybeFilters, rule: &str) -> MaybeFilters {
        let treatment = sent.treatment.as_deref();
        let Some(backend) = &sent.whose else { return filters };
        // Not the cluster's name, which says under which policy: clients would lose their sessions with a new one.
        let backend = backend.text();
        let of_rule = || self.persistence.as_ref().map(|persistence| persistence.of(&[rule, &backend], &[&backend]));
        if !sent.empty
            && let Some(session) = treatment.and_then(|treatment| treatment.session.clone()).or_else(of_rule)
        {
            filters.session = Some(session);
        }
        if self.timeouts.retry.is_some() && treatment.is_some_and(|treatment| treatment.retry_budget) {
            filters.retry_budget = true;
        }
        filters
    }

    fn forward(&self, matched: &RouteMatch, flavour: Flavour, rule: &str) -> Action {
        if self.total() == 0 {
            return fail(matched, "no backend has a share".into());
        }
        let destinations = self.destinations.iter().map(|sent| Destination {
            backend: if flavour.passes_tls { sent.as_it_comes.clone() } else { sent.backend.clone() },
            weight: sent.weight,
            filters: self.treated(sent, sent.filters.finish(&matched.path, Some(flavour.port)), rule),
        });
        let Timeouts { request, attempt, retry } = &self.timeouts;
        Action::Forward(Box::new(Forward {
            destinations: destinations.collect(),
            timeout: *request,
            try_timeout: *attempt,
            retry: retry.clone().map(Box::new),
        }))
    }
}

/// An answer of 500, or of UNAVAILABLE to gRPC calls, which is what becomes of 503; with the reason for people who read the configuration.
pub(crate) fn fail(matched: &RouteMatch, reason: Arc<str>) -> Action {
    Action::Respond(Respond { status: if matched.grpc { 503 } else { 500 }, reason })
}

/// Matches that an earlier one of the route leaves nothing: the first rule of several with the same match gets all (Gateway API, `HTTPRouteRule.matches`).
fn unreached(rules: &[Rule<'_>]) -> Vec<Finding> {
    let all = rules.iter().flat_map(|rule| rule.matches.iter().map(|(at, _, matched)| (rule.number, *at, matched)));
    let mut first = HashMap::new();
    let mut found = Vec::new();
    for (number, at, matched) in all {
        let (earlier, place) = *first.entry(matched).or_insert((number, at));
        if (earlier, place) != (number, at) {
            let text = format!(
                "spec.rules[{earlier}].matches[{place}] is the same and comes first: no request comes here; change one, or leave this one out"
            );
            found.push(Finding::warning(format!("spec.rules[{number}].matches[{at}]"), text));
        }
    }
    found
}

fn matches(
    rule: &Written<'_>,
    number: u16,
    losses: &mut Losses,
    problems: &mut Vec<Finding>,
) -> Vec<(u16, Rank, RouteMatch)> {
    let compiled = rule.matches.compiled();
    let mut usable = Vec::with_capacity(compiled.len());
    let mut refused = Vec::new();
    for (at, matched) in (0_u16..).zip(compiled) {
        match matched {
            Ok((rank, matched)) => {
                let place = |index| format!("spec.rules[{number}].matches[{at}].headers[{index}].name");
                let again = matching::repeated(rule.matches.headers(at).iter().map(|header| &*header.name));
                problems.extend(again.map(|index| Finding::warning(place(index), matching::REPEATED)));
                let at_match =
                    |(field, text)| Finding::warning(format!("spec.rules[{number}].matches[{at}].{field}"), text);
                problems.extend(rule.matches.remarks(at).into_iter().map(at_match));
                usable.push((at, rank, matched));
            }
            Err((field, text)) => {
                let dot = if field.is_empty() { "" } else { "." };
                refused.push((format!("spec.rules[{number}].matches[{at}]{dot}{field}"), text));
            }
        }
    }
    for (path, text) in refused {
        losses.reason.get_or_insert(UNSUPPORTED);
        losses.texts.push(format!("{path}: {text}"));
    }
    if usable.is_empty() {
        let text = "no match of this rule can be used, it takes no request";
        problems.push(Finding::warning(format!("spec.rules[{number}]"), text));
    }
    usable
}

/// Filters and answer of a rule, or why it cannot be used.
fn rule_body<'r, L: Lookup>(
    targets: &mut Targets<'_, L>,
    rule: &Written<'r>,
    number: u16,
    matches: &[(u16, Rank, RouteMatch)],
    (losses, problems): (&mut Losses, &mut Vec<Finding>),
) -> Result<(Draft<'r>, Answer<'r>), String> {
    let path = || format!("spec.rules[{number}]");
    let on_prefix = matches.iter().all(|(.., matched)| matches!(matched.path, ir::route::PathMatch::Prefix(_)));
    let filters = draft(targets, rule.filters, &|| format!("{}.filters", path()));
    // Backends are resolved whatever becomes of the rule: a bad reference is always reported.
    let destinations = destinations(targets, rule, number, on_prefix, losses);
    let mut refuse = |reason, path: String, text: String| {
        losses.add(reason, &path, &text, losses.answer.all);
        text
    };
    if let Some(fault) = rule.fault {
        return Err(refuse(UNSUPPORTED, fault.path.to_string(), fault.text.to_string()));
    }
    let filters = filters.map_err(|no| refuse(no.reason, format!("{}.filters[{}]", path(), no.index), no.text))?;
    if filters.needs_prefix() && !on_prefix {
        let text = "ReplacePrefixMatch needs a match on a path prefix";
        return Err(refuse(UNSUPPORTED, format!("{}.filters", path()), text.into()));
    }
    let persistence = rule
        .session
        .map(Persistence::read)
        .transpose()
        .map_err(|(field, text)| refuse(UNSUPPORTED, format!("{}.sessionPersistence.{field}", path()), text))?;
    within_backends(&destinations, persistence.as_ref(), &path, problems);
    if let Some((field, text)) = persistence.as_ref().and_then(|read| read.warning) {
        problems.push(Finding::warning(format!("{}.sessionPersistence.{field}", path()), text));
    }
    let timeouts = timeouts(rule).map_err(|(field, text)| refuse(UNSUPPORTED, format!("{}.{field}", path()), text))?;
    if let Some(reason) = filters.closed {
        return Ok((Draft::default(), Answer::Fail(reason)));
    }
    let answer = if filters.redirects() {
        let nothing = rule.of_forwarding();
        problems.extend(nothing.map(|(field, why)| Finding::warning(format!("{}.{field}", path()), why)));
        Answer::Redirect
    } else {
        Answer::Forward(Box::new(Targeted { destinations, timeouts, persistence }))
    };
    Ok((filters, answer))
}

/// Sessions that do not hold across the backends of a rule are told.
fn within_backends(
    destinations: &[Sent<'_>],
    persistence: Option<&Persistence>,
    path: &impl Fn() -> String,
    problems: &mut Vec<Finding>,
) {
    let live = || destinations.iter().enumerate().filter(|(_, sent)| sent.weight > 0);
    if live().count() < 2 {
        return;
    }
    if persistence.is_some_and(|read| !read.tells_backends_apart()) {
        problems.push(Finding::warning(format!("{}.sessionPersistence.type", path()), WITHIN_BACKENDS));
    }
    let by_header = |(_, sent): &(usize, &Sent<'_>)| {
        let session = sent.treatment.as_deref().and_then(|treatment| treatment.session.as_deref());
        matches!(session, Some(Session::Header { .. }))
    };
    let of_backends = live().filter(by_header).map(|(at, _)| format!("{}.backendRefs[{at}]", path()));
    problems.extend(of_backends.map(|place| Finding::warning(place, WITHIN_BACKENDS)));
}

/// A client tells by its header nothing but the endpoint.
const WITHIN_BACKENDS: &str = "of several backends a session by a header is with the one that the weights choose for each request; with type Cookie it \
     stays with the first";

/// The backends of a rule. One that leads nowhere, or whose filters cannot be done, answers 500 for exactly its share.
fn destinations<'r, L: Lookup>(
    targets: &mut Targets<'_, L>,
    rule: &Written<'r>,
    number: u16,
    on_prefix: bool,
    losses: &mut Losses,
) -> Vec<Sent<'r>> {
    let mut sent = Vec::with_capacity(rule.backend_refs.len());
    for (at, target) in rule.backend_refs.iter().enumerate() {
        let path = || format!("spec.rules[{number}].backendRefs[{at}]");
        let resolved = targets.resolve(&target.target, path);
        let (backend, as_it_comes, treatment, whose) = match resolved {
            Ok(Resolved { backend, by_itself, as_it_comes, treatment }) => {
                (Backend::Cluster(by_itself), Backend::Cluster(as_it_comes), treatment, Some(backend))
            }
            Err(reason) => (Backend::Broken(reason.clone()), Backend::Broken(reason), None, None),
        };
        let broken = |reason| {
            let backend = Backend::Broken(reason);
            (backend.clone(), backend, None, Draft::default())
        };
        let (backend, as_it_comes, whose, filters) = match backend_filters(targets, target, on_prefix, &path) {
            Ok(Draft { closed: Some(reason), .. }) => broken(reason),
            Ok(filters) => (backend, as_it_comes, whose, filters),
            Err((reason, place, text)) => {
                losses.add(reason, &place, &text, losses.answer.share);
                broken(text.into())
            }
        };
        let weight = target.weight.min(MAX_WEIGHT);
        let has_session =
            rule.session.is_some() || treatment.as_ref().is_some_and(|treatment| treatment.session.is_some());
        let several = has_session && rule.backend_refs.len() > 1;
        let empty = several && whose.as_ref().is_some_and(|backend| targets.is_empty(backend));
        sent.push(Sent { backend, whose, as_it_comes, weight, filters, treatment, empty });
    }
    sent
}

/// Bound of the API (`BackendRef.weight`); sixteen of them stay below Envoy's limit on the sum.
const MAX_WEIGHT: u32 = 1_000_000;

fn backend_filters<'r, L: Lookup>(
    targets: &mut Targets<'_, L>,
    target: &'r HttpBackendRef,
    on_prefix: bool,
    path: &dyn Fn() -> String,
) -> Result<Draft<'r>, (&'static str, String, String)> {
    if target.filters.is_empty() {
        return Ok(Draft::default());
    }
    let list = || format!("{}.filters", path());
    let filters = draft(targets, &target.filters, &list)
        .map_err(|no| (no.reason, format!("{}[{}]", list(), no.index), no.text))?;
    if filters.needs_prefix() && !on_prefix {
        return Err((UNSUPPORTED, list(), "ReplacePrefixMatch needs a match on a path prefix".into()));
    }
    Ok(filters)
}

/// More attempts for one request would be a way to keep a proxy busy: at 25 ms between the first ones these are some minutes.
const MAX_ATTEMPTS: u32 = 1_000;

/// Timeouts and retries; a field that cannot be read is returned with its name.
fn timeouts(rule: &Written<'_>) -> Result<Timeouts, (&'static str, String)> {
    let (request, attempt) =
        rule.timeouts.map_or((&None, &None), |timeouts| (&timeouts.request, &timeouts.backend_request));
    let backoff = rule.retry.map_or(&None, |retry| &retry.backoff);
    let retry = match rule.retry.filter(|retry| retry.attempts > 0) {
        None => None,
        Some(retry) => {
            let mut codes = retry.codes.to_vec();
            codes.sort_unstable();
            codes.dedup();
            if let Some(code) = codes.iter().find(|code| !(400..=599).contains(*code)) {
                return Err(("retry.codes", format!("status {code} cannot be tried again, 400 to 599 can")));
            }
            if retry.attempts > MAX_ATTEMPTS {
                let text = format!("{} attempts are too many, {MAX_ATTEMPTS} can be made", retry.attempts);
                return Err(("retry.attempts", text));
            }
            Some(Retry {
                attempts: retry.attempts,
                codes,
                backoff: duration(backoff, "retry.backoff")?.filter(|duration| !duration.is_zero()),
            })
        }
    };
    Ok(Timeouts {
        request: duration(request, "timeouts.request")?,
        attempt: duration(attempt, "timeouts.backendRequest")?.filter(|duration| !duration.is_zero()),
        retry,
    })
}

fn duration(text: &Option<DurationText>, field: &'static str) -> Result<Option<Duration>, (&'static str, String)> {
    match text {
        None => Ok(None),
        Some(DurationText::Valid(duration)) => Ok(Some(*duration)),
        Some(DurationText::Invalid(text)) => Err((field, format!("{text:?} is not a duration such as 500ms or 1h30m"))),
    }
}

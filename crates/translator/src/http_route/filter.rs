//! Filters: every type checked once, then finished for each match (a prefix to replace) and listener (a port to redirect to).

mod headers;

use std::sync::Arc;

use api::http_route::{
    CorsFilter, ExternalAuthFilter, HttpMethod, HttpRouteFilter, PathModifier, RequestMirrorFilter,
    RequestRedirectFilter, UrlRewriteFilter,
};
use ir::route::{Cors, Filters, MaybeFilters, Mirror, PathChange, PathMatch, Redirect, Rewrite};

use super::matching::prefix;
use super::target::{Resolved, Targets};
use super::{ListenerPort, Lookup};
use crate::external_auth;

/// The filters of a rule or backend, checked.
#[derive(Default)]
pub(super) struct Draft<'r> {
    /// There is a filter at all: most lists are empty.
    any: bool,
    /// All but rewrite and redirect.
    fixed: Filters,
    rewrite: Option<&'r UrlRewriteFilter>,
    redirect: Option<&'r RequestRedirectFilter>,
    /// Nothing may pass, and why: who would have to be asked is not there.
    pub(super) closed: Option<Arc<str>>,
}

/// Why filters cannot be done: requests that would have passed them are answered with an error, they are never skipped.
#[derive(Debug)]
pub(super) struct Refused {
    /// `UnsupportedValue` or `IncompatibleFilters`.
    pub(super) reason: &'static str,
    /// Which filter of the list, from 0.
    pub(super) index: usize,
    pub(super) text: String,
}

/// The reason of values that we do not know or do not support.
pub(super) const UNSUPPORTED: &str = "UnsupportedValue";
const INCOMPATIBLE: &str = "IncompatibleFilters";

/// Checks a list of filters; `path` names the list in messages.
pub(super) fn draft<'r, L: Lookup>(
    targets: &mut Targets<'_, L>,
    filters: &'r [HttpRouteFilter],
    path: &dyn Fn() -> String,
) -> Result<Draft<'r>, Refused> {
    let mut draft = Draft { any: !filters.is_empty(), ..Draft::default() };
    for (index, filter) in filters.iter().enumerate() {
        let refused = |text: String| Refused { reason: UNSUPPORTED, index, text };
        let once = |taken: bool| if taken { Err(twice(filter, index)) } else { Ok(()) };
        match filter {
            HttpRouteFilter::RequestHeaderModifier(changes) => {
                once(!draft.fixed.request_headers.is_empty())?;
                draft.fixed.request_headers = headers::changes(changes).map_err(refused)?.into();
                targets.ignore(headers::ignored(changes), || format!("{}[{index}].requestHeaderModifier", path()));
            }
            HttpRouteFilter::ResponseHeaderModifier(changes) => {
                once(!draft.fixed.response_headers.is_empty())?;
                draft.fixed.response_headers = headers::changes(changes).map_err(refused)?.into();
                let ignored = headers::ignored(changes).chain(headers::put_back(changes));
                targets.ignore(ignored, || format!("{}[{index}].responseHeaderModifier", path()));
            }
            HttpRouteFilter::RequestMirror(mirror) => {
                let share = share(mirror).map_err(refused)?;
                // A mirror that leads nowhere is left out; the request itself goes on (5.11 of the reference).
                let place = || format!("{}[{index}].requestMirror.backendRef", path());
                if let Ok(Resolved { by_itself: cluster, .. }) = targets.resolve(&mirror.backend_ref, place) {
                    draft.fixed.mirrors.push(Mirror { cluster, share });
                }
            }
            HttpRouteFilter::RequestRedirect(redirect) => {
                once(draft.redirect.is_some())?;
                check_redirect(redirect).map_err(refused)?;
                draft.redirect = Some(redirect);
            }
            HttpRouteFilter::UrlRewrite(rewrite) => {
                once(draft.rewrite.is_some())?;
                rewrite.path.as_ref().map_or(Ok(()), check_path).map_err(refused)?;
                check_host(rewrite.hostname.as_deref()).map_err(refused)?;
                draft.rewrite = Some(rewrite);
            }
            HttpRouteFilter::Cors(cors) => {
                once(draft.fixed.cors.is_some())?;
                draft.fixed.cors = Some(Arc::new(cross_origin(cors).map_err(refused)?));
            }
            HttpRouteFilter::ExternalAuth(auth) => {
                once(draft.closed.is_some() || !draft.fixed.external_auth.is_empty())?;
                let place = || format!("{}[{index}].externalAuth.backendRef", path());
                draft.ask(targets, auth, place).map_err(refused)?;
            }
            HttpRouteFilter::ExtensionRef(target) => {
                return Err(refused(format!("filter {} {:?} is not supported", target.kind, target.name)));
            }
            HttpRouteFilter::Unknown(name) => {
                return Err(refused(format!("filter type {name:?} is not supported, or its settings are missing")));
            }
        }
    }
    if draft.rewrite.is_some() && draft.redirect.is_some() {
        let text = "URLRewrite and RequestRedirect exclude each other".into();
        return Err(Refused { reason: INCOMPATIBLE, index: 0, text });
    }
    Ok(draft)
}

/// A filter of a type of which there may be one.
fn twice(filter: &HttpRouteFilter, index: usize) -> Refused {
    let text = format!("{} is given twice, once is allowed", filter.type_name());
    Refused { reason: INCOMPATIBLE, index, text }
}

impl Draft<'_> {
    /// A server that is not there lets nothing pass. Its reference is followed whatever else is wrong: a bad one is always reported.
    fn ask<L: Lookup>(
        &mut self,
        targets: &mut Targets<'_, L>,
        auth: &ExternalAuthFilter,
        place: impl FnOnce() -> String,
    ) -> Result<(), String> {
        let asked = targets.authority(auth, place);
        let whole = external_auth::read(auth, targets.namespace())?;
        match asked {
            Ok(cluster) => self.fixed.external_auth.push(Arc::new(whole(cluster))),
            Err(reason) => self.closed = Some(reason),
        }
        Ok(())
    }

    /// It answers by itself.
    pub(super) fn redirects(&self) -> bool {
        self.redirect.is_some()
    }

    /// It replaces the prefix that matched, so every match has to be one on a prefix.
    pub(super) fn needs_prefix(&self) -> bool {
        let paths = [self.rewrite.and_then(|it| it.path.as_ref()), self.redirect.and_then(|it| it.path.as_ref())];
        paths.into_iter().flatten().any(|path| matches!(path, PathModifier::ReplacePrefixMatch(_)))
    }

    /// For one match. A redirect of a rule is an action and not among the filters; `with_redirect` keeps that of a backend.
    pub(super) fn finish(&self, matched: &PathMatch, with_redirect: Option<Option<ListenerPort>>) -> MaybeFilters {
        if !self.any {
            return MaybeFilters::default();
        }
        let mut filters = self.fixed.clone();
        filters.rewrite = self.rewrite.and_then(|rewrite| {
            let host = rewrite.hostname.as_deref().map(Arc::from);
            let path = rewrite.path.as_ref().and_then(|path| path_change(path, matched));
            (host.is_some() || path.is_some()).then(|| Box::new(Rewrite { host, path }))
        });
        filters.redirect = with_redirect.and_then(|listener| self.redirect(matched, listener)).map(Box::new);
        filters.into()
    }

    /// The redirect for a match and a listener (table 5.9 of the reference): the effective port is that of the filter, else of
    /// the filter's scheme, else of the listener; the default port of the scheme is printed only in place of another one.
    pub(super) fn redirect(&self, matched: &PathMatch, listener: Option<ListenerPort>) -> Option<Redirect> {
        let redirect = self.redirect?;
        let listener = listener.unwrap_or(ListenerPort { port: 80, tls: false });
        let scheme = redirect.scheme.as_ref().map(|scheme| scheme.as_str());
        let default_of = |scheme: &str| if scheme == "https" { 443 } else { 80 };
        let port = redirect.port.or_else(|| scheme.map(default_of)).unwrap_or(listener.port);
        let effective = scheme.unwrap_or(if listener.tls { "https" } else { "http" });
        let is_default = port == default_of(effective);
        let has_host = redirect.hostname.is_some();
        Some(Redirect {
            status: redirect.status_code,
            scheme: scheme.map(Arc::from),
            host: redirect.hostname.as_deref().map(Arc::from),
            port: (!(is_default && has_host)).then_some(port),
            is_default_port: is_default && !has_host,
            path: redirect.path.as_ref().and_then(|path| path_change(path, matched)),
        })
    }
}

fn path_change(modifier: &PathModifier, matched: &PathMatch) -> Option<PathChange> {
    match (modifier, matched) {
        (PathModifier::ReplaceFullPath(path), _) => Some(PathChange::Full((&**path).into())),
        (PathModifier::ReplacePrefixMatch(text), PathMatch::Prefix(matched)) => {
            let trimmed = prefix(text);
            let replacement = if &*trimmed == "/" { Arc::from("") } else { trimmed };
            Some(PathChange::Prefix { matched: matched.clone(), replacement })
        }
        _ => None,
    }
}

fn check_path(modifier: &PathModifier) -> Result<(), String> {
    match modifier {
        PathModifier::ReplaceFullPath(path) if path.starts_with('/') => plain_path(path),
        PathModifier::ReplacePrefixMatch(path) if path.is_empty() || path.starts_with('/') => plain_path(path),
        PathModifier::ReplaceFullPath(path) | PathModifier::ReplacePrefixMatch(path) => {
            Err(format!("{path:?} is not a path, a path starts with a slash"))
        }
        PathModifier::Unknown(word) => Err(format!("path modifier {word:?} is not supported")),
    }
}

fn check_host(host: Option<&str>) -> Result<(), String> {
    match host {
        Some(host) if crate::hostname::Hostname::parse(host).is_none_or(|_| host.starts_with('*')) => {
            Err(format!("{host:?} is not a host name"))
        }
        _ => Ok(()),
    }
}

fn check_redirect(redirect: &RequestRedirectFilter) -> Result<(), String> {
    let scheme = redirect.scheme.as_ref().map(|scheme| scheme.as_str());
    if let Some(word) = scheme.filter(|word| !matches!(*word, "http" | "https")) {
        return Err(format!("redirect scheme {word:?} is not supported"));
    }
    if !matches!(redirect.status_code, 301 | 302 | 303 | 307 | 308) {
        return Err(format!("redirect status {} is not supported", redirect.status_code));
    }
    if redirect.port == Some(0) {
        return Err("redirect port 0 is not a port".into());
    }
    check_host(redirect.hostname.as_deref())?;
    redirect.path.as_ref().map_or(Ok(()), check_path)
}

/// A token (RFC 9110, 5.6.2).
pub(crate) fn check_token(name: &str) -> Result<(), String> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return Err(format!("{name:?} is not a header name"));
    }
    Ok(())
}

/// No control characters: they would end a header line.
fn plain(text: &str, what: &str) -> Result<(), String> {
    let bad = |byte: u8| (byte < b' ' && byte != b'\t') || byte == 0x7f;
    if text.bytes().any(bad) { Err(format!("{text:?} is not {what}, it holds control characters")) } else { Ok(()) }
}

/// Of what a path in a request line and in `Location` may have (RFC 3986, 3.3): no blank, query or fragment ends it, and what is not ASCII is written
/// with `%`.
fn plain_path(path: &str) -> Result<(), String> {
    plain(path, "a path")?;
    match path.chars().find(|sign| matches!(sign, ' ' | '?' | '#') || !sign.is_ascii()) {
        None => Ok(()),
        Some(sign) => {
            let bytes: String = sign.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
            Err(format!("{path:?} is not a path, it holds {sign:?}; write {bytes}"))
        }
    }
}

/// The share of requests that are copied, in millionths.
fn share(mirror: &RequestMirrorFilter) -> Result<u32, String> {
    match (mirror.percent, mirror.fraction) {
        (Some(_), Some(_)) => Err("percent and fraction exclude each other".into()),
        (Some(percent), None) if percent <= 100 => Ok(percent * 10_000),
        (Some(percent), None) => Err(format!("percent {percent} is more than 100")),
        (None, Some(fraction)) if fraction.denominator > 0 && fraction.numerator <= fraction.denominator => {
            let millionths = u64::from(fraction.numerator) * 1_000_000 / u64::from(fraction.denominator);
            Ok(u32::try_from(millionths).unwrap_or(1_000_000))
        }
        (None, Some(fraction)) => {
            Err(format!("fraction {}/{} is not between 0 and 1", fraction.numerator, fraction.denominator))
        }
        (None, None) => Ok(1_000_000),
    }
}

fn cross_origin(cors: &CorsFilter) -> Result<Cors, String> {
    let mut allow_methods = Vec::with_capacity(cors.allow_methods.len());
    for method in &cors.allow_methods {
        let word = method.as_str();
        if word != "*" && !HttpMethod::WORDS.contains(&word) {
            return Err(format!("method {word:?} is not supported"));
        }
        allow_methods.push(Arc::from(word));
    }
    let names = |list: &[Box<str>]| {
        // as written; `*` is a token too
        list.iter()
            .map(|name| check_token(name).map(|()| Arc::from(&**name)))
            .collect::<Result<Vec<Arc<str>>, String>>()
    };
    Ok(Cors {
        allow_origins: cors.allow_origins.iter().map(|origin| check_origin(origin)).collect::<Result<_, _>>()?,
        allow_methods,
        allow_headers: names(&cors.allow_headers)?,
        expose_headers: names(&cors.expose_headers)?,
        max_age: cors.max_age,
        allow_credentials: cors.allow_credentials,
    })
}

/// `*`, or a scheme and a host that may be or begin with a wildcard, and perhaps a port.
fn check_origin(origin: &str) -> Result<Arc<str>, String> {
    let good = origin == "*"
        || origin.split_once("://").is_some_and(|(scheme, rest)| {
            !scheme.is_empty()
                && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
                && !rest.is_empty()
                && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]*".contains(&byte))
        });
    if good { Ok(origin.into()) } else { Err(format!("{origin:?} is not an origin such as https://example.com:8443")) }
}

#[cfg(test)]
mod tests;

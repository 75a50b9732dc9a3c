//! Redirects.

use ir::route::{Filters, Redirect};
use proto::envoy::config::route::v3::redirect_action::{
    PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier,
};
use proto::envoy::config::route::v3::{RedirectAction, Route, route};

use super::finish;
use super::matches::host_with_port;
use super::path::{PathPlan, substitute};

/// The Envoy routes of a redirect. Envoy keeps the port of the request's host where it is given none, and prints the one that it is given: one that the
/// scheme has anyway is given only to requests whose host has a port, by a route before that of the others.
pub(super) fn routes(message: Route, filters: &Filters, redirect: &Redirect, mut emit: impl FnMut(Route)) {
    if redirect.is_default_port {
        let mut with_port = message.clone();
        if let Some(matches) = &mut with_port.r#match {
            matches.headers.push(host_with_port());
        }
        emit(finish(with_port, filters, route::Action::Redirect(action(redirect, redirect.port))));
    }
    let port = redirect.port.filter(|_| !redirect.is_default_port);
    emit(finish(message, filters, route::Action::Redirect(action(redirect, port))));
}

/// Everything was decided by the translator.
fn action(redirect: &Redirect, port: Option<u16>) -> RedirectAction {
    RedirectAction {
        response_code: code(redirect.status) as i32,
        scheme_rewrite_specifier: redirect
            .scheme
            .as_ref()
            .map(|scheme| SchemeRewriteSpecifier::SchemeRedirect(scheme.as_ref().to_owned())),
        host_redirect: redirect.host.as_deref().unwrap_or_default().to_owned(),
        port_redirect: port.map_or(0, u32::from),
        path_rewrite_specifier: path(PathPlan::new(redirect.path.as_ref())),
        ..RedirectAction::default()
    }
}

fn path(plan: PathPlan) -> Option<PathRewriteSpecifier> {
    Some(match plan {
        PathPlan::Keep => return None,
        PathPlan::Full(path) => PathRewriteSpecifier::PathRedirect(path),
        PathPlan::Prefix(prefix) => PathRewriteSpecifier::PrefixRewrite(prefix),
        PathPlan::Regex { pattern, substitution } => {
            PathRewriteSpecifier::RegexRewrite(substitute(pattern, substitution))
        }
    })
}

fn code(status: u16) -> RedirectResponseCode {
    match status {
        301 => RedirectResponseCode::MovedPermanently,
        303 => RedirectResponseCode::SeeOther,
        307 => RedirectResponseCode::TemporaryRedirect,
        308 => RedirectResponseCode::PermanentRedirect,
        // 302 is Gateway API's default
        _ => RedirectResponseCode::Found,
    }
}

//! Redirects.

use ir::route::Redirect;
use proto::envoy::config::route::v3::RedirectAction;
use proto::envoy::config::route::v3::redirect_action::{
    PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier,
};

use super::path::{PathPlan, substitute};

/// Everything was decided by the translator: Envoy prints the scheme, host and port that it is given, also a default port.
pub(super) fn action(redirect: &Redirect) -> RedirectAction {
    RedirectAction {
        response_code: code(redirect.status) as i32,
        scheme_rewrite_specifier: redirect
            .scheme
            .as_ref()
            .map(|scheme| SchemeRewriteSpecifier::SchemeRedirect(scheme.as_ref().to_owned())),
        host_redirect: redirect.host.as_deref().unwrap_or_default().to_owned(),
        port_redirect: redirect.port.map_or(0, u32::from),
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

//! `ExternalAuth`: what a server is asked before a request may pass (Gateway API GEP-1494).

use std::num::NonZeroU32;
use std::sync::Arc;

use api::http_route::{ExternalAuthFilter, ExternalAuthProtocol, HttpAuth};
use ir::ClusterName;
use ir::route::{AuthProtocol, ExternalAuth};

use crate::http_route::{check_token, lower};

/// The most of a body that may be sent along, in bytes: 64 requests that wait for their answers hold 1 GiB of a proxy's memory then.
const MAX_BODY: u32 = 16 * 1024 * 1024;

/// The server speaks gRPC.
pub(crate) fn is_grpc(filter: &ExternalAuthFilter) -> bool {
    filter.protocol == ExternalAuthProtocol::Grpc
}

/// Checks a filter; what comes back makes it whole once it is known who is asked. `namespace` is that of the object that the filter is in.
pub(crate) fn read(
    filter: &ExternalAuthFilter,
    namespace: &str,
) -> Result<impl FnOnce(ClusterName) -> ExternalAuth, String> {
    let (protocol, allowed) = match &filter.protocol {
        ExternalAuthProtocol::Http => {
            let HttpAuth { path, allowed_headers, allowed_response_headers } =
                filter.http.as_ref().ok_or("http is missing, protocol HTTP needs it")?;
            let path_prefix = path.as_deref().map_or(Ok(Arc::default()), path_prefix)?;
            (AuthProtocol::Http { path_prefix, response_headers: names(allowed_response_headers)? }, &**allowed_headers)
        }
        ExternalAuthProtocol::Grpc => {
            let grpc = filter.grpc.as_ref().ok_or("grpc is missing, protocol GRPC needs it")?;
            let server = &filter.backend_ref;
            let namespace = server.namespace.as_deref().unwrap_or(namespace);
            (AuthProtocol::Grpc { authority: format!("{}.{namespace}", server.name).into() }, &*grpc.allowed_headers)
        }
        ExternalAuthProtocol::Unknown(word) => {
            return Err(format!("protocol {word:?} of ExternalAuth is not supported, HTTP and GRPC are"));
        }
    };
    let request_headers = names(allowed)?;
    let max_body = filter.forward_body.and_then(|body| NonZeroU32::new(body.max_size));
    if let Some(size) = max_body.filter(|size| size.get() > MAX_BODY) {
        return Err(format!("forwardBody.maxSize {size} is too much, at most {MAX_BODY} bytes can be sent"));
    }
    Ok(move |cluster| ExternalAuth { cluster, protocol, request_headers, max_body })
}

/// In front of a path, which begins with a slash: none at the end, and one at the beginning whether written or not. What servers understand in
/// different ways is refused: the server might be asked about another path than the one that the backend gets.
fn path_prefix(text: &str) -> Result<Arc<str>, String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-/._~!$&'()*+,;=:@%".contains(&byte);
    let trimmed = text.trim_end_matches('/');
    let trimmed = trimmed.strip_prefix('/').unwrap_or(trimmed);
    let odd = |part: &str| matches!(part, "" | "." | "..");
    let lower = trimmed.to_ascii_lowercase();
    let escaped = ["%2f", "%2e", "%5c"].iter().any(|code| lower.contains(code));
    match trimmed {
        "" => Ok(Arc::default()),
        path if !path.bytes().all(allowed) || escaped || path.split('/').any(odd) => {
            Err(format!("{text:?} is not a prefix of a path, such as /check"))
        }
        path => Ok(format!("/{path}").into()),
    }
}

/// Names of headers in their normal form, each once.
fn names(list: &[Box<str>]) -> Result<Vec<Arc<str>>, String> {
    let mut names: Vec<Arc<str>> = Vec::with_capacity(list.len());
    for name in list {
        check_token(name)?;
        let name = lower(name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests;

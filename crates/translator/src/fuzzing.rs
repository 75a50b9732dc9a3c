//! Functions of this crate for fuzz targets only.

use std::sync::Arc;

use crate::OwnPlaces;
use crate::envoy_proxy::arguments::passed;
use crate::secret::{read_bundle, read_pair};

/// A chain and its key as a proxy gets them, or why it gets none.
///
/// # Errors
/// If one of them cannot be used.
pub fn pair(chain: &[u8], key: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    read_pair(chain, key).map(|pair| (pair.chain, pair.key))
}

/// Certificates to trust as a proxy gets them, or why it gets none.
///
/// # Errors
/// If one of them cannot be read.
pub fn bundle(text: &[u8]) -> Result<Vec<u8>, String> {
    read_bundle(text).map(|bundle| bundle.text)
}

/// Returns the arguments of an author that reach Envoy's command line where the operator lists these options.
#[must_use]
pub fn arguments(written: &[Box<str>], allowed: &[Box<str>]) -> Vec<Arc<str>> {
    passed(written, allowed).0
}

/// Returns true if a `Backend` on this machine may name a host and port.
#[must_use]
pub fn takes_host(places: &OwnPlaces, host: &str, port: u16) -> bool {
    places.refuses_host(host, port, true).is_none()
}

/// Returns true if a `Backend` on this machine may name a socket by this path, which leads there.
#[must_use]
pub fn takes_socket(places: &OwnPlaces, path: &str, leads: Option<&str>) -> bool {
    places.refuses_socket(path, true, leads.ok_or("has not been looked up")).is_none()
}

//! Where the real Envoy is.

use std::path::{Path, PathBuf};

/// The Envoy that the project is built for.
pub(crate) fn envoy() -> PathBuf {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/envoy/1.40.0/bin/envoy");
    let path = std::env::var_os("CHANCERY_ENVOY").map_or(installed, PathBuf::from);
    assert!(path.exists(), "Envoy is not at {}: run tools/install-envoy, or set CHANCERY_ENVOY", path.display());
    path
}

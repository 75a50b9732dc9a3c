//! What the end-to-end tests share: the binary under test, Envoy, certificates made on the spot, requests, waiting for facts.
//!
//! | module | holds |
//! |---|---|
//! | [`binary`] | where the binary under test and the pinned Envoy are, and how they are run |
//! | [`certificate`] | certificates and keys, made when a test runs and never committed |
//! | [`wait`] | waiting for a fact with a deadline |

pub mod binary;
pub mod certificate;
pub mod wait;

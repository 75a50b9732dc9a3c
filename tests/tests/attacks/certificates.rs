//! Secrets that Envoy refuses.

//! The bodies of the fuzz targets: each takes any bytes and panics if something is wrong. `make test` runs them too, from the tests of
//! `xds`, of `protojson` and of `chancery`.

pub mod callers;
#[cfg(feature = "translator")]
pub mod files;
#[cfg(feature = "translator")]
pub mod generate;
#[cfg(feature = "translator")]
pub mod host_headers;
#[cfg(feature = "translator")]
pub mod json_to_objects;
pub mod load_reports;
pub mod messages;
pub mod messages_round_trip;
#[cfg(feature = "translator")]
pub mod pem;
pub mod pieces;
pub mod pings;
#[cfg(feature = "translator")]
pub mod places;
pub mod questions;
pub mod refusals;
pub mod requests;
pub mod responses;
pub mod saved_fleet;
#[cfg(feature = "translator")]
pub mod translate;
#[cfg(feature = "translator")]
pub mod translate_history;
#[cfg(feature = "translator")]
pub mod world;
pub mod xds_client;
pub mod xds_session;
#[cfg(feature = "translator")]
pub mod yaml_to_objects;

//! Google's packages: the well-known types (ours and prost-types') beside the generated ones.

pub use crate::generated::google::{api, rpc};

pub mod protobuf;

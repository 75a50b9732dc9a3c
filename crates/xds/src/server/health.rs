//! `grpc.health.v1.Health`: a server that answers serves all its services.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

use super::exchange::{Answer, Questions, read};
use super::grpc::{Broken, Code};
use super::services;

/// `HealthCheckResponse.ServingStatus`.
const SERVING: i32 = 1;
const SERVICE_UNKNOWN: i32 = 3;

/// `HealthCheckRequest`.
#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(string, tag = "1")]
    service: String,
}

/// `HealthCheckResponse`.
#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// `HealthListResponse`.
#[derive(Clone, PartialEq, Message)]
struct List {
    #[prost(btree_map = "string, message", tag = "1")]
    statuses: BTreeMap<String, Response>,
}

/// Answers `Check` and `Watch`. Of a service that there is not, the one ends and the other says so.
pub(super) fn check(turns: Questions) -> Answer {
    Box::new(move |_, request| {
        let Request { service } = read(request)?;
        let status = match () {
            () if service.is_empty() || services::names().any(|name| name == service) => SERVING,
            () if turns == Questions::Watch => SERVICE_UNKNOWN,
            () => return Err(Broken(Code::NotFound, "no such service here")),
        };
        Ok(Response { status }.encode_to_vec().into())
    })
}

/// Answers `List`.
pub(super) fn list() -> Answer {
    Box::new(|_, _: Bytes| {
        let names = services::names().chain([""]);
        let statuses = names.map(|name| (name.to_owned(), Response { status: SERVING })).collect();
        Ok(List { statuses }.encode_to_vec().into())
    })
}

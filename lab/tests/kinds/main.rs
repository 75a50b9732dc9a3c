//! Kinds and fields of the experimental channel in a cluster that Chancery serves: statuses as the API server has them, and requests through proxies.
//! Tests share one lab with the definitions of that channel, each with a namespace of its own.
//!
//! | file | shows |
//! |---|---|
//! | `place` | a namespace with a Gateway, and requests to it from inside the lab |
//! | `backends` | Pods by their labels, names elsewhere, Services of other clusters, authorities of the cluster |
//! | `policies` | sessions and budgets of backends, traces of Gateways |
//! | `auth` | servers that say whether a request may pass, asked by routes and by listeners |
//! | `clients` | clients whose certificates an authority of the cluster has given |
//! | `defaults` | Gateways for routes that name none |
//! | `guards` | policies that guard with fields which are not built |
//! | `statuses` | what others write into a status stays there |
//! | `coming` | grants, listeners, routes and certificates come, change and go while HTTP, gRPC, TCP and TLS clients ask |
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "figures, and when what went wrong")]

#[path = "../chaos/load.rs"]
mod asking;
mod auth;
mod backends;
mod clients;
#[path = "../served/cluster.rs"]
#[expect(dead_code, reason = "others need the definitions of the standard channel")]
mod cluster;
mod coming;
mod defaults;
mod guards;
#[path = "../lab/harness.rs"]
#[expect(dead_code, reason = "the tests of pods need more of it")]
mod harness;
#[path = "../proxies/inside.rs"]
#[expect(dead_code, reason = "nobody needs a client here")]
mod inside;
mod place;
mod policies;
mod statuses;
#[path = "../served/world.rs"]
#[expect(dead_code, reason = "others need more of it")]
mod world;

//! The shell through its sockets: a small gRPC client, gRPC of other languages, and a real Envoy.
//!
//! What a real Envoy does that a server has to know of, as stories under requests, in both variants where both have it:
//!
//! | Story | Test |
//! |---|---|
//! | changed cluster; new cluster on a shared endpoint set (R1) | `real_envoy::a_changed_cluster…`, `real_warming::clusters_on_a_shared…` |
//! | silent resolver beside changes and new routes; a stream that breaks while a cluster warms (R2, R3, R13) | `real_warming::a_cluster_that_cannot_be_resolved…` |
//! | first start with nothing and with missing parts (R6) | `real_envoy::a_first_start…`, `a_refused_first…` |
//! | secret late, or never (R5) | `real_secrets::a_listener_waits_for_a_late_secret…` |
//! | bytes of the reference to a secret (R7) | `crates/envoy/src/tls/tests.rs` |
//! | restarted server, then changes of what uses secrets (R7, R8) | `real_secrets::restarts_and_changes…` |
//! | eight resources, one bad, per kind; then a reconnect (R11) | `real_eight` |
//! | the words of a refused secret (R12) | `real_secrets::a_refused_secret…`, `redact` |
//! | ghosts, new and changed; with a restart in between (R11a) | `real_envoy::refused_routes_and_ghost…`, `real_warming::ghosts…` |
//! | rename on one port (R14) | `real_warming::a_listener_is_renamed…` |
//! | hosts inside, by VHDS, and back; a second configuration; none | `real_envoy::many_hosts…`, `real_warming::virtual_hosts_of_a_second…` |
//! | removed and there again, within and after the drain (R9) | `real_secrets::what_is_removed…` |
//! | each transport, with rotations and a restart | `real_tls` |

mod authority;
mod client;
mod grpc_clients;
mod identity;
mod load;
mod people;
mod protocol;
mod proxy;
mod real_eight;
mod real_envoy;
mod real_load;
mod real_secrets;
mod real_tls;
mod real_warming;
mod resources;
mod sockets;
mod status;

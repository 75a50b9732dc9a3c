//! The shell through its sockets: a small gRPC client, gRPC of other languages, and a real Envoy.
//!
//! What a real Envoy does that a server has to know of, as stories under requests, in both variants where both have it:
//!
//! | Story | Test |
//! |---|---|
//! | 1 changed cluster; new cluster on a shared endpoint set (R1) | `real_envoy::a_changed_cluster…`, `real_warming::clusters_on_a_shared…` |
//! | 2 silent resolver beside changes and new routes (R2, R3) | `real_warming::a_cluster_that_cannot_be_resolved…` |
//! | 3 first start without a part, or with nothing (R6) | `real_first`; a refused part: `real_envoy::a_refused_first…` |
//! | 4 secret late, or never (R5) | `real_secrets::a_listener_waits_for_a_late_secret…` |
//! | 5 bytes of the reference to a secret (R7) | `crates/envoy/src/tls/tests.rs` |
//! | 6 eight resources, one bad, per kind; then a reconnect (R11) | `real_eight` |
//! | 7 the words of a refused secret (R12) | `real_secrets::a_refused_secret…`, `redact` |
//! | 7a ghosts, new and changed; with a restart in between (R11a) | `real_envoy::refused_routes_and_ghost…`, `real_warming::ghosts…`; in the middle: `real_break::ghosts…` |
//! | 8 a stream that breaks while a cluster warms (R13) | `real_break::a_stream_that_breaks…` |
//! | 9 rename on one port (R14) | `real_warming::a_listener_is_renamed…` |
//! | 10 hosts inside, by VHDS, and back; a second configuration; none | `real_envoy::hosts_go_apart_and_back…`, `…many_hosts…`, `…hosts_go_inside…` (SotW), `real_warming::virtual_hosts_of_a_second…`, `real_first` |
//! | 11 removed and there again, within and after the drain (R9) | `real_secrets::what_is_removed…` |
//! | restarted server, then changes of what uses secrets (R7, R8) | `real_secrets::restarts_and_changes…` |
//! | each transport, with rotations and a restart | `real_tls` |

mod authority;
mod backlog;
mod client;
mod clients;
mod costs;
mod crowd;
mod grpc_clients;
mod identity;
mod load;
mod people;
mod protocol;
mod proxy;
mod real_break;
mod real_eight;
mod real_envoy;
mod real_first;
mod real_load;
mod real_secrets;
mod real_tls;
mod real_warming;
mod relay;
mod resources;
mod sockets;
mod stage;
mod status;

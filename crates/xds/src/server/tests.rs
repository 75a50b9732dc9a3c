//! The shell through its sockets: a small gRPC client, and a real Envoy.

mod authority;
mod client;
mod identity;
mod proxy;
mod real_envoy;
mod resources;
mod sockets;

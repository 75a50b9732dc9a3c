//! The shell through its sockets: a small gRPC client, and a real Envoy.

mod authority;
mod client;
mod grpc_clients;
mod identity;
mod load;
mod people;
mod protocol;
mod proxy;
mod real_envoy;
mod real_load;
mod real_tls;
mod resources;
mod sockets;
mod status;

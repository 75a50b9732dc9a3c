//! The protocol, message by message, without sockets.

mod dispute;
mod envoy;
mod first_start;
mod histories;
mod kept;
mod last_good;
mod link;
mod nack;
mod namesakes;
mod order;
mod property;
pub(crate) mod rig;
mod subscription;
mod whole;
mod world;

//! Load reports, message by message, without sockets.

mod bounds;
mod property;
mod reports;
mod rig;
mod talk;
mod time;

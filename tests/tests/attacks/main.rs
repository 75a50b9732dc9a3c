//! Attacks from outside on a Chancery that serves files: by authors of objects, by clients of its ports, by other users of the machine.
//! Each test plays the attacker and shows what all others still get.
//!
//! | file | attacker |
//! |---|---|
//! | `sockets` | an author of a `Backend` or a route that aims at a socket or port of Chancery or of an Envoy |
//! | `command_line` | an author of `EnvoyProxy` that reads files, writes files or runs code, of Backends that lead to a cloud's metadata |
//! | `raw` | an author of patches or of raw resources that does the same, or that leads to addresses of Chancery or of a cloud's metadata |
//! | `powers` | the same author, who hides what it does behind another type or a server of its own |
//! | `newcomers` | an author of one namespace who claims what another one is served with, by a name or an age |
//! | `guards` | a request that a policy which is not built would have refused |
//! | `paths` | a request whose path is spelled so that it misses a guarded route |
//! | `certificates` | an author of a Secret that Envoy refuses |
//! | `slow_starts` | an author of a Backend whose name is never resolved |
//! | `streams` | a client of the xDS port, with and without a certificate |
//! | `monitors` | a client of the health and admin ports, a page in a browser |
//! | `files` | an author of files in a folder that is read: links, devices, costly files |
//! | `products` | an author of objects that are each small, and whose product is large |
//! | `mixed` | all of them at once, for a minute (`ATTACKS=full`: half an hour) |
//! | `host` | another user of the machine: state folders, programs, full disks |

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod certificates;
mod command_line;
mod files;
mod guards;
mod host;
mod mixed;
mod monitors;
mod newcomers;
mod paths;
mod powers;
mod products;
mod raw;
mod slow_starts;
mod sockets;
mod streams;

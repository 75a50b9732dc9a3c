//! Host mode: one Envoy per Gateway as a supervised process on this machine (Linux).
//!
//! [`run()`] is told which proxies shall be and makes it so: it finds Envoy, starts it, restarts it with a growing pause when
//! it dies, drains it when its Gateway goes or Chancery ends, and says what it sees as [`HostFact`]s. Everything it needs
//! from outside comes with [`HostOptions`]; it reads no environment and knows nothing of bootstraps or of xDS.
//!
//! An Envoy outlives a killed Chancery and goes on serving: its output goes to files, it has a process group of its own, and
//! it connects again to the same socket. The next Chancery adopts it if it was started in the very way in which it would be
//! started now (program, arguments, bootstrap), else replaces it: the successor gets its listening sockets, and then it drains. An Envoy that is being ended is recorded as
//! such first, so that nobody adopts it; its successor starts as soon as its listeners are closed and serves beside it.
//!
//! Files, below the state folder ([`Layout`]): `lock`, `gateways/<random>/{gateway, token, wanted.json, bootstrap.json, envoy.pid,
//! next.pid, memory, envoy.log, output.log, xds.sock, hot.*}`, its admin socket under a name that only Chancery knows, and for each Envoy on its way out `draining.<pid>` and `drain.<pid>`, its record and its
//! admin socket. The socket `xds.sock` is made by the xDS server.
//!
//! Map: [`run()`] hands each Gateway to a task of `supervise`, which uses `launch` (arguments), `process` (start, adopt, watch,
//! signal), `orphan` (start it so that it outlives us), `handover` (sockets for a successor), `admin` (ask Envoy), `retired` and `drain` (end it gently), `left` (find and end those that no Chancery watches), `log` (carry its lines), `port` and `address` (facts for statuses).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ir::{FleetName, Infra};

mod address;
pub(crate) mod admin;
mod backoff;
mod binary;
mod drain;
mod error;
mod fact;
mod handover;
mod holder;
mod launch;
mod layout;
mod left;
mod lock;
mod log;
pub mod orphan;
mod ownership;
mod port;
mod process;
mod readable;
mod retired;
mod run;
mod supervise;
mod token;

#[cfg(test)]
pub(crate) mod tests;

pub use address::machine_addresses;
pub use binary::{ENVOY_VERSION, Envoy, EnvoyFinder, EnvoySearch};
pub use error::Error;
pub use fact::{EnvoyState, HostFact};
pub use holder::Holder;
pub use layout::{ADMIN_SOCKET, Layout, ProxyPaths};
pub use left::LeftEnvoy;
pub use lock::StateLock;
pub use log::OUTPUT_TARGET;
pub use ownership::own_state_folder;
pub use port::{Listeners, port_permission};
pub use run::{Ending, Wanted, run};
pub use token::Token;

/// Makes the text of a proxy's bootstrap (JSON). It must give the same text for the same arguments: another text means that
/// a running Envoy is replaced. It may be called from any task, and often.
pub type BootstrapFn = dyn Fn(&Infra, &ProxyPaths) -> String + Send + Sync;

/// Proxies that every machine has room for: 1 GB of memory at some 60 MB for an Envoy.
pub const FEWEST_PROXIES: usize = 16;

/// How proxies are run on this machine.
#[derive(Clone)]
pub struct HostOptions {
    /// Where their files are.
    pub layout: Layout,
    /// Who knows which Envoy to start.
    pub envoy: EnvoyFinder,
    /// Their bootstraps.
    pub bootstrap: Arc<BootstrapFn>,
    /// How long requests may take to end when a proxy is drained, where its Gateway says nothing.
    pub drain: Duration,
    /// How long connections of a listener that was changed or removed may go on (`--drain-time-s`, whole seconds).
    pub listener_drain: Duration,
    /// Proxies that are served before it is known which there shall be: one that is dead is started as it was last.
    pub served: BTreeSet<FleetName>,
    /// Proxies at a time. A further one waits until one of them is gone; those that ran before this process count, and stay.
    pub most: usize,
    /// This program has [`orphan::VERB`], by which Envoys are started. Without, they are children, and those that can hand over end with the thread that started them.
    pub orphans: bool,
    /// Envoy's log level where a Gateway says nothing: trace, debug, info, warning, error or critical.
    pub log_level: String,
}

impl HostOptions {
    /// The usual times, bounds and levels: 10 s to drain, Envoy's own 600 s for listeners (shorter cuts long streams with every
    /// change of their listener), 16 proxies, log level `warning`.
    pub fn new(layout: Layout, envoy: EnvoyFinder, bootstrap: Arc<BootstrapFn>) -> Self {
        Self {
            layout,
            envoy,
            bootstrap,
            drain: Duration::from_secs(10),
            listener_drain: Duration::from_secs(600),
            served: BTreeSet::new(),
            most: FEWEST_PROXIES,
            orphans: false,
            log_level: "warning".to_owned(),
        }
    }
}

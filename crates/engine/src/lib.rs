//! Incremental collections: keyed tables, transforms whose reads are recorded, changes as output.
//!
//! A [`Graph`] is declared once: inputs, and transforms that read tables declared before them. Inputs are written from
//! outside; a [tick](Graph::tick) computes again exactly what depends on what was written; the [changes](Graph::changes)
//! of a table are what came of it. The cost of a change is the number of rows and groups that read it, whatever the
//! size of the tables.
//!
//! ```
//! use std::sync::Arc;
//!
//! use engine::{Chunk, Graph, Index, Table};
//!
//! type Name = Arc<str>;
//!
//! let mut g = Graph::new();
//!
//! // Tables written from outside: routes `(host, service)` and the ports of services.
//! let routes: Table<Name, (Name, Name)> = g.input("route");
//! let services: Table<Name, Vec<u16>> = g.input("service");
//!
//! // Zero or more rows per row: narrow tables hold only what others ask for.
//! let ports: Table<(Name, u16), ()> = g.derive("port", services, |_, service, ports: &Vec<u16>| {
//!     ports.iter().map(|port| (Name::clone(service), *port)).map(|key| (key, ())).collect::<Vec<_>>()
//! });
//!
//! // Groups of rows, each sorted by key.
//! let by_service: Index<Name, Name, _> = g.index("route_by_service", routes, |_, (_, service)| [service.clone()]);
//!
//! // One row per row. Reads are recorded: this runs again when port 80 of that service comes or goes.
//! let views = g.map("view", routes, move |cx, _, (host, service)| {
//!     (host.clone(), cx.contains(ports, &(service.clone(), 80)))
//! });
//! let users = g.map("users", services, move |cx, service, _| cx.count(by_service, service));
//!
//! // One row per group that has members.
//! let by_host = g.index("view_by_host", views, |_, (host, _)| [host.clone()]);
//! let hosts = g.group("host", by_host, |_, _, members| {
//!     members.iter().map(|(route, (_, found))| format!("{route}={found}")).collect::<Vec<_>>()
//! });
//!
//! // Large groups in pieces: a change costs its piece, and the list of pieces.
//! let chunks: Index<Chunk<Name, Name>, Name, _> = g.chunks("view_chunk", by_host, 128);
//! let pieces = g.group("piece", chunks, |_, _, members| Arc::new(members.keys().cloned().collect::<Vec<Name>>()));
//! let by_group = g.index("piece_by_host", pieces, |chunk, _| [chunk.group.clone()]);
//! let lists = g.group("piece_list", by_group, |_, _, members| members.values().cloned().collect::<Vec<_>>());
//!
//! g.set(services, "web".into(), vec![80]);
//! g.set(routes, "one".into(), ("example.com".into(), "web".into()));
//! g.set(routes, "two".into(), ("example.com".into(), "gone".into()));
//! g.tick();
//! let host = Name::from("example.com");
//! assert_eq!(g.get(hosts, &host), Some(&vec!["one=true".to_owned(), "two=false".to_owned()]));
//! assert_eq!(g.get(users, &"web".into()), Some(&1));
//! assert_eq!(g.get(lists, &host).map(Vec::len), Some(1));
//!
//! // An absent key that somebody asked for wakes its reader when it comes, and nobody else.
//! g.set(services, "gone".into(), vec![80, 443]);
//! g.tick();
//! let changes: Vec<_> = g.changes(hosts).map(|change| (change.key, change.new)).collect();
//! assert_eq!(changes, [(&host, Some(&vec!["one=true".to_owned(), "two=true".to_owned()]))]);
//! g.settle(); // frees old values, after publishing
//!
//! // Equal values wake nobody.
//! g.set(services, "gone".into(), vec![80, 443]);
//! assert_eq!(g.tick().runs, 0);
//! ```
//!
//! # What holds
//!
//! - **Reads are exact.** [`Cx::get`], [`Cx::contains`], [`Cx::members`], [`Cx::keys`], [`Cx::count`] and [`Cx::any`] each
//!   wake a run only for what it asked, absence included.
//! - **Values equal to the previous ones wake nobody**, and are no change.
//! - **The tables are a function of the inputs**, whatever the history: groups are sorted by key, and of several units
//!   that emit one key the one with the smallest key of its own has it. Only the order of [`Graph::iter`] and
//!   [`Graph::changes`] depends on history.
//! - **No cycles**: a handle exists only after its table is declared.
//! - **A transform that panics** has no output for that unit until something that it read changes; [`Graph::panics`]
//!   lists it, and the rest of the tick goes on. This needs `panic = "unwind"`.
//! - **Transforms are pure**: they see their arguments and what they read, and nothing else that changes.
//!
//! # Writing transforms
//!
//! 1. Narrow first: derive small tables that hold only what others ask for, and read those.
//! 2. Explode sets into keys, and ask `any` of exact keys; a scan wakes for everything.
//! 3. Order goes into the key.
//! 4. Ask for the least: `contains` before `get`, `any` before `count`, `keys` before `members`; a `tally` before an index
//!    of which nobody asks more than the count, `distinct` before a `group` that does not look at its members.
//! 5. Large values are `Arc<T>` with `T: Eq`, passed through rather than copied: comparing begins with the pointer.
//! 6. `index` sees key and value only. If a group depends on another table, derive a table first.
//! 7. A conflict that users can cause is a group keyed by the claimed thing, so that the loser can name the winner.
//!
//! # Map
//!
//! `graph` declares, `graph/tick` commits, `graph/read` reads from outside; `units`, `indexing` and `chunks` are the
//! nodes; `rows` and `groups` the tables behind `table`; `slab`, `edges`, `lists` and `bits` own the numbers.

mod bits;
mod chunks;
mod cx;
mod edges;
mod fault;
mod graph;
mod groups;
mod handle;
mod indexing;
mod lists;
mod members;
mod node;
#[cfg(test)]
mod proof;
mod report;
mod rows;
mod slab;
mod stable;
mod table;
mod units;

pub use chunks::Chunk;
pub use cx::Cx;
pub use graph::Graph;
pub use handle::{Index, Key, Table, Value};
pub use members::{Members, MembersIter};
pub use report::{Change, Conflict, GraphSize, NodeKind, NodeStats, Panic, Refusal, TickStats};
pub use stable::{Stable, StableHasher, stable_hash};

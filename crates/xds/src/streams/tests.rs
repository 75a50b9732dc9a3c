//! The rules of the protocol as an xDS server has to obey them, each told in all variants that it concerns: delta and state of the world,
//! over one stream for everything and over streams for each kind. Where Envoy wants it otherwise than the protocol says (rules R1 to R17),
//! both are told.
//!
//! | Rule | Tests |
//! |---|---|
//! | 1 four variants, every kind, no `Fetch` | [`kinds`], `server::tests::protocol` |
//! | 2 `node` with the first message, and the same when repeated | `server::tests::protocol` |
//! | 3 nonces, what a refusal is, stale requests | [`answers`] |
//! | 4 nothing unchanged is sent, what is newer takes the place of what is older | [`answers`] |
//! | 5 state of the world: what is complete and what is not, duplicate names | [`whole`] |
//! | 6 state of the world: what is newly named is sent | [`whole`] |
//! | 7 `*`, the wildcard of those who name nothing, and its end | [`wildcard`] |
//! | 8 names: again, unknown, unsubscribed, phantoms (R6, R9) | [`names`] |
//! | 9 `initial_resource_versions`, and the same for state of the world | [`resume`] |
//! | 10 make before break | [`order`]; in depth: `session::tests::order` |
//! | 10 a removal, and when | [`removals`] |
//! | 11 endpoints behind every cluster (R1) | [`order`] |
//! | 12 times to live and heartbeats | [`lifetime`] |
//! | 13 names of the form `xdstp:`, resource locators | [`names`] |
//! | 14 `resource_errors` | [`names`] |
//! | 15 what gRPC's own clients do | [`kinds`] |
//! | 16 flow control | `server::tests::sockets` |
//! | 17 what Envoy does | [`order`], [`resume`]; in depth: `session::tests`, `server::tests::real_envoy` |
//!
//! [`versions`] has the versions of responses. [`apart`] tells what holds where a client has several streams for one kind, [`bounds`] what a client costs at most.

mod answers;
mod apart;
mod bounds;
mod kinds;
mod lifetime;
mod names;
mod order;
mod removals;
mod resume;
mod talk;
mod versions;
mod whole;
mod wildcard;

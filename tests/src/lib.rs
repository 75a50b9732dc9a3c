//! What the end-to-end tests share: the binary under test, Envoy, certificates made on the spot, requests, waiting for facts.
//!
//! | module | holds |
//! |---|---|
//! | [`authority`] | servers that say whether a request may pass |
//! | [`binary`] | where the binary under test and the pinned Envoy are, and how they are run |
//! | [`certificate`] | certificates and keys, made when a test runs and never committed |
//! | [`backend`] | small HTTP servers that answer with their name |
//! | [`client`] | requests, in cleartext and over TLS |
//! | [`datagrams`] | UDP servers that answer with their name, and clients |
//! | [`elsewhere`] | an Envoy that Chancery did not start |
//! | [`grpc`] | gRPC servers that answer with their name, and calls |
//! | [`grpc_clients`] | gRPC of Python, Node and Go, configured over xDS |
//! | [`http2`] | frames of clients that break the rules |
//! | [`inputs`] | the fuzz targets as ordinary tests: inputs that are the same each time |
//! | [`objects`] | Gateway API objects as YAML text |
//! | [`ports`] | ports that no other test gets |
//! | [`prober`] | requests without pause, each with the answers that are right for it |
//! | [`running`] | a Chancery with its Envoys, started on a folder and ended with the test |
//! | [`told`] | what `chancery validate` says of a text |
//! | [`wait`] | waiting for a fact with a deadline |

pub mod authority;
pub mod backend;
pub mod binary;
pub mod certificate;
pub mod client;
pub mod collector;
pub mod datagrams;
pub mod elsewhere;
pub mod grpc;
pub mod grpc_clients;
pub mod http2;
pub mod inputs;
pub mod names;
pub mod namespace;
pub mod objects;
pub mod ports;
pub mod prober;
pub mod running;
pub mod told;
pub mod wait;

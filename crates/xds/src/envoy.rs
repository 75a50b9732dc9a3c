//! What Envoy does with what it is sent: the rules R1 to R17 that this crate's comments cite. Words only, no code.
//!
//! Measured with Envoy 1.40.0 over one stream for everything (ADS), delta where nothing else is said; no document has them. Each says
//! what Envoy does, and behind the arrow what follows for us. They hold for clients that say they are Envoy ([`crate::Node`],
//! `user_agent`); to anybody else the protocol's document alone applies. `server::tests` tells which of them is proven against a real
//! Envoy, and where.
//!
//! "Warm" is a cluster that has its endpoints (and secrets, DNS answers, first health checks) and takes requests; "warming", one that
//! waits for them, while its version before, if there is one, serves.
//!
//! **Clusters**
//!
//! - **R1** A cluster that is new or changed warms until its endpoint set comes *after* it, though Envoy has the same set already. It
//!   does not ask for a set that it has, and gives up after 15 s. → Behind each CDS response, in the same write, goes the set of every
//!   cluster in it, changed or not; never before it.
//! - **R2** While any cluster warms, all CDS answers are withheld, acknowledgements and refusals alike; one DNS name that does not
//!   resolve is enough, for as long as it does not. → The CDS answer never decides alone whether a cluster is ready. The acknowledgement
//!   of the endpoints sent behind it is the second witness, for a new cluster together with Envoy's request for them.
//! - **R3** Clusters with DNS, active health checks or secrets may warm late or never, and the endpoints prove nothing of them. → They go
//!   by themselves, after all others are ready; what names them waits for them, and nothing else does. Envoy asks for its first listeners when
//!   all clusters are ready that it has by then, however long one resolves a name: on a first start they go out behind that request, and the
//!   listeners wait 1.5 s for them. Routes to one that is later answer 503 (R10).
//! - **R10** Routes do not wait for clusters: until the cluster that one names is warm, it answers 503. → A route configuration goes out
//!   when the clusters that it names are warm on this client; one that does not get warm holds it back for some seconds.
//! - **R16** A cluster that changes gets new connections to all its endpoints. → Its bytes change only when they have to; that is for
//!   those who publish.
//!
//! **Listeners and secrets**
//!
//! - **R4** A listener is acknowledged within milliseconds, whatever it waits for. → It counts as active when it is acknowledged and its
//!   route configurations, virtual hosts and secrets are too.
//! - **R5** After 15 s without them it takes the place of the one that works all the same, and answers 404 or resets handshakes. → No
//!   listener is sent whose parts there are not, and one whose parts can be sent no more is taken back: the version before goes again,
//!   which ends the waiting at once.
//! - **R7** To Envoy a secret is a name together with the bytes of the `ConfigSource` that refers to it: with other bytes it is another
//!   secret, which it does not ask for if it has the name, and lacks after 15 s. → These bytes are one constant, for ever, held by a test
//!   of the crate `envoy`.
//! - **R8** Sent before what names it, such a secret is of no use; right behind, it is. → Secrets go right behind the clusters and
//!   listeners that name them.
//! - **R14** On one address a new listener name is refused while the old one is there, and if the old one goes first connections are. →
//!   Both are in one response ([`crate::Resource::replaces`]).
//! - **R15** A change of a listener ends its long requests after the drain time. → What changes often stands in routes, virtual hosts,
//!   endpoints and secrets; that is for those who publish.
//!
//! **Requests and answers**
//!
//! - **R6** A name that is asked for and does not exist is waited for, and what "it does not exist" does depends on the kind: an
//!   endpoint set is empty then, a first start without a route configuration never ends, a listener without a secret begins all the same
//!   and resets its connections. → Nothing is sent whose parts there are not. What is asked for all the same
//!   gets an empty endpoint set; on a first start an empty route configuration, later that it does not exist (the listener before serves
//!   on then); for a secret nothing. The first request for clusters or listeners gets an empty response if there are none.
//! - **R9** Who unsubscribes and subscribes again waits for an answer, though nothing has changed. → A name that is asked for anew is
//!   sent whatever the client has.
//! - **R13** A stream that begins while a cluster warms asks for endpoints first, and for clusters only once it has them. → Endpoints are
//!   answered whether clusters were asked for or not, and a request for clusters that does not come is done without.
//! - **R17** By default Envoy sends its node, 61 KB, with every message, and after a long outage comes back up to 30 s late. → The
//!   bootstrap of the crate `envoy` says `set_node_on_first_message_only` and a back-off of 0.1 s to 1 s.
//!
//! **Refusals**
//!
//! - **R11** A refusal says nothing of the rest of its response: some of that was taken, some was not, and when Envoy comes again it
//!   lists the versions before for all of it. → Each resource of it goes again, in smaller and smaller groups, in the end alone, which
//!   costs about 1 ms; what is refused alone is guilty, and the others are acknowledged.
//! - **R11a** A cluster that is refused late (ring sizes, a Maglev table that is no prime) stays in Envoy as one that warms for ever, on
//!   later streams too, and so closes all CDS answers (R2): a ghost. → After a CDS refusal, at once, what was active is sent in its last
//!   acknowledged bytes with endpoints behind, and what was new is removed. Both cure it.
//! - **R12** The words of a refusal can repeat the resource, private keys included. → What it repeats is
//!   cut out before anything is shown, logged or kept, and of a secret's refusal there is none of Envoy's words (`redact`).

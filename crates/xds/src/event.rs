//! What comes back from the clients of a fleet, told once for all of them.

use std::sync::Arc;

use crate::load::ClusterLoad;
use crate::redact;
use crate::resource::{TypeUrl, Version};

/// Who a client says it is. Nothing here is proven: it may narrow what a client sees and name it to people, nothing more.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    /// `node.id`.
    pub id: Arc<str>,
    /// `node.cluster`.
    pub cluster: Arc<str>,
    /// `node.user_agent_name`, for example `envoy`.
    pub user_agent: Arc<str>,
    /// `node.user_agent_build_version` (`1.40.0`), else `node.user_agent_version`; empty where neither is said.
    pub version: Arc<str>,
    /// `node.metadata.labels`, where these are texts, as far as they can be labels of Kubernetes.
    pub labels: Arc<[(Arc<str>, Arc<str>)]>,
    /// `node.client_features`, as far as they change what is said to the client.
    pub features: Features,
}

/// What a client says that it understands (Envoy's documentation, "Well Known Client Features").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Features {
    /// `xds.config.supports-resource-ttl`.
    pub ttl: bool,
    /// `xds.config.resource-in-sotw`: resources of a SotW response may be wrapped, which is where their time to live stands.
    pub wrapped_in_sotw: bool,
}

impl Node {
    /// The `id` as far as it may be shown to people: one line of at most 253 characters.
    pub fn shown(&self) -> Arc<str> {
        redact::node(&self.id)
    }

    /// Whether this is an Envoy, of which is known what it does with what it is sent (rules R1 to R17). Whoever else it is, is served by
    /// the protocol's document alone.
    pub(crate) fn is_envoy(&self) -> bool {
        &*self.user_agent == "envoy"
    }
}

/// Of so many clients it is told what they make of one resource: enough for people to see whether it is one of them or each.
pub const MOST_OBJECTIONS: usize = 8;

/// What one client says against a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// What the client calls itself (`node.id`), as far as it can be shown.
    pub node: Arc<str>,
    /// Its words, without anything that could be a secret (R12).
    pub text: Arc<str>,
}

/// One fact about a fleet. Later facts about the same thing replace earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client has opened a stream.
    Connected {
        /// The fleet.
        fleet: Arc<str>,
        /// The client.
        node: Arc<Node>,
        /// How many clients there are now.
        connected: usize,
    },
    /// A client has acknowledged a complete configuration, and the fleet had none that did. What [`Event::ClusterWarm`] has to say
    /// about its clusters comes before this in the same batch or an earlier one.
    Live {
        /// The fleet.
        fleet: Arc<str>,
    },
    /// A client's stream has ended. With none left, everything will be reported again for the next one that comes.
    Gone {
        /// The fleet.
        fleet: Arc<str>,
        /// The client.
        node: Arc<Node>,
        /// How many clients are left.
        connected: usize,
    },
    /// Several Envoys that are connected at once call themselves the same, so that what one of them has is not known from what another has.
    /// Told once while any of them is there.
    Namesakes {
        /// The fleet.
        fleet: Arc<str>,
        /// One of them.
        node: Arc<Node>,
    },
    /// Every client that keeps up has this cluster ready for requests.
    ClusterWarm {
        /// The fleet.
        fleet: Arc<str>,
        /// The cluster.
        name: Arc<str>,
    },
    /// Every client that keeps up uses this version (for a listener: it is active, with its route configurations). Not told of
    /// clusters ([`Event::ClusterWarm`] is) and endpoint sets.
    Accepted {
        /// The fleet.
        fleet: Arc<str>,
        /// Kind of resource.
        type_url: TypeUrl,
        /// Its name.
        name: Arc<str>,
        /// The version in use.
        version: Version,
        /// Before that the resource was told to be refused.
        was_refused: bool,
    },
    /// No client has taken this version: all refuse it, or one does and the others have not taken it in time. The fleet stays on the version
    /// before, or without the resource if it was new.
    Refused {
        /// The fleet.
        fleet: Arc<str>,
        /// Kind of resource.
        type_url: TypeUrl,
        /// Its name.
        name: Arc<str>,
        /// The version that is refused.
        version: Version,
        /// A version before was accepted, and the fleet stays on that one.
        has_previous: bool,
        /// The client's words, without anything that could be a secret (R12).
        text: Arc<str>,
    },
    /// A client refuses the current version and stays on the version before, while others take it or have not answered yet.
    Disputed {
        /// The fleet.
        fleet: Arc<str>,
        /// Kind of resource.
        type_url: TypeUrl,
        /// Its name.
        name: Arc<str>,
        /// Who refuses it now, at most [`MOST_OBJECTIONS`]; nobody once nobody is left who disagrees, or all do.
        by: Vec<Objection>,
    },
    /// A new cluster did not become ready in time on some clients that answer. It may still.
    Stalled {
        /// The fleet.
        fleet: Arc<str>,
        /// The cluster.
        name: Arc<str>,
        /// On which it is not ready now, as they call themselves, at most [`MOST_OBJECTIONS`]; none once it is ready on each or they are
        /// gone.
        nodes: Vec<Arc<str>>,
        /// [`Event::ClusterWarm`] was reported of some version of it before: clients that had it still have it ready.
        was_warm: bool,
    },
    /// What the clients send to a cluster, as they report it.
    Load {
        /// The fleet.
        fleet: Arc<str>,
        /// The cluster, or the service that several have in common.
        cluster: Arc<str>,
        /// The latest; none when nobody reports on it any more, which says nothing about how much there is.
        load: Option<Arc<ClusterLoad>>,
    },
    /// A client reports what cannot be; the possible part of it counts. Told once for each stream.
    Misreported {
        /// The fleet.
        fleet: Arc<str>,
        /// The client.
        node: Arc<Node>,
        /// What of it cannot be.
        text: &'static str,
    },
}

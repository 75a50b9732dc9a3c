//! Names: cheap to clone, ordered, and of one kind each, so that a cluster's name is never taken for a listener's.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Declares one newtype over a shared string per kind of name.
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        /// That of the text; names are shared, so most comparisons end with the pointer, as those of `Eq` do.
        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(Arc::from(text))
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(Arc::from(text))
            }
        }

        impl From<Arc<str>> for $name {
            fn from(text: Arc<str>) -> Self {
                Self(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

names! {
    /// Whose configuration this is: `<namespace>/<gateway>` for a Gateway of its own.
    FleetName;
    /// A listener: `<namespace>/<gateway>/<port>`.
    ListenerName;
    /// A route configuration: the listener's name, then `/<server name>` for a TLS chain (`*` for the chain without one).
    RouteConfigurationName;
    /// What is done with the connections of a filter chain: the listener's name, then `/<server name>` on a TLS listener.
    TcpProxyName;
    /// A virtual host: `<route configuration>/<first domain>`; unique in a fleet, as Envoy's virtual host discovery wants.
    VirtualHostName;
    /// A backend's identity: `<namespace>/<service>/<port>`, the kind in front where it is not a Service, and `~<hash>` behind
    /// where two users of one backend need different settings. Never a position.
    ClusterName;
    /// A set of endpoints: one port of one Service. Several clusters may read one set.
    EndpointSetName;
    /// A certificate or trust bundle: `<kind>/<namespace>/<object>`.
    SecretName;
}

impl FleetName {
    /// The fleet of one workload. A Gateway's has one slash.
    #[must_use]
    pub fn of_workload(namespace: &str, name: &str) -> Self {
        Self(format!("workload/{namespace}/{name}").into())
    }

    /// Namespace and name, if it is that of a workload.
    #[must_use]
    pub fn workload(&self) -> Option<(&str, &str)> {
        Self::workload_of(&self.0)
    }

    /// [`Self::workload`] of a fleet's name.
    #[must_use]
    pub fn workload_of(fleet: &str) -> Option<(&str, &str)> {
        fleet.strip_prefix("workload/")?.split_once('/')
    }
}

impl ClusterName {
    /// The cluster of every backend that cannot be reached by rule: it never exists and nobody waits for it.
    pub const INVALID: &'static str = "chancery.invalid";
}

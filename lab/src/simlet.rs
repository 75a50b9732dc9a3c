//! simlet, the lab's kubelet: it runs pods as processes. It is also the scheduler (there is one node) and gives load balancers their addresses.
//!
//! | file | holds |
//! |---|---|
//! | `node` | the Node object and its Lease |
//! | `pods` | which pods there are: binds them, gives each a task |
//! | `pod` | the life of one pod, with `container` for each container |
//! | `runtime` | processes of pods and containers, as tasks see them |
//! | `spec` | what a container is made of, from its pod: `image`, `environment`, `security`, `volume` |
//! | `status` | what is said of a pod, as a function of what is known |
//! | `probe`, `handler`, `backoff` | when a container is asked, told, and started again |
//! | `log`, `server`, `forward` | what containers write, and how it is read over the API; ports of pods |
//! | `world` | Secrets, ConfigMaps and Services as they are now |
//! | `load_balancer`, `pool` | addresses |
//! | `dns` | names of Services |

pub(crate) mod backoff;
pub(crate) mod board;
pub(crate) mod container;
pub(crate) mod dns;
pub(crate) mod downward;
pub(crate) mod environment;
pub(crate) mod event;
pub(crate) mod expansion;
pub(crate) mod forward;
pub(crate) mod handler;
pub(crate) mod image;
pub(crate) mod load_balancer;
pub(crate) mod log;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod pods;
pub(crate) mod pool;
pub(crate) mod probe;
pub(crate) mod quantity;
pub(crate) mod runtime;
pub(crate) mod security;
pub(crate) mod server;
pub(crate) mod spec;
pub(crate) mod status;
pub(crate) mod volume;
pub(crate) mod world;

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use k8s_openapi::jiff::Timestamp;
use tokio::task::JoinSet;

use crate::place::Place;
use event::Recorder;
use log::Logs;
use pool::Pool;
use world::World;

/// What the parts share.
pub(crate) struct Context {
    pub(crate) place: Place,
    pub(crate) client: kube::Client,
    pub(crate) world: World,
    pub(crate) events: Recorder,
    pub(crate) logs: Logs,
    /// Addresses of pods.
    pub(crate) addresses: Mutex<Pool>,
}

/// Addresses of pods.
const PODS: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(10, 244, 1, 0), Ipv4Addr::new(10, 244, 255, 254));

/// The one clock.
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// Makes the node, and gives what then has to run for ever.
pub(crate) async fn start(place: Place, client: kube::Client) -> anyhow::Result<impl Future<Output = anyhow::Error>> {
    node::create(&client).await?;
    let mut tasks = JoinSet::new();
    let context = Arc::new(Context {
        world: World::follow(&client, &mut tasks),
        events: Recorder::new(client.clone()),
        logs: Logs::new(place.file("log/pods")),
        addresses: Mutex::new(Pool::new(PODS.0, PODS.1)),
        place,
        client,
    });
    let server = server::bind().await?;
    tasks.spawn(server::serve(server, Arc::clone(&context)));
    tasks.spawn(node::keep_lease(context.client.clone()));
    tasks.spawn(load_balancer::assign(Arc::clone(&context)));
    tasks.spawn(dns::serve(Arc::clone(&context), dns::bind(&context.client).await?));
    tasks.spawn(pods::run(Arc::clone(&context)));
    Ok(async move {
        let ended = tasks.join_next().await;
        anyhow::anyhow!("a task of simlet ended: {ended:?}")
    })
}

//! Any bytes as requests of health, reflection and client status: no panic, and no answer is larger than it may be.

use std::cell::RefCell;

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use prost::Message;
use proto::envoy::config::core::v3::Node;
use proto::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use tokio::runtime::Runtime;
use xds::fuzzing::Desk;
use xds::{Change, FleetUpdate, Resource, TypeUrl, Version};

/// No answer is larger, but for what it repeats of the request.
const LARGEST: usize = 5 << 20;

thread_local! {
    /// Nothing of a question stays there.
    static DESK: (Runtime, RefCell<Desk>) = desk();
}

fn desk() -> (Runtime, RefCell<Desk>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let put = |name: &str| Resource::new(TypeUrl::Cluster, name, Version(1), [Bytes::from_static(b"body")]).into();
    let update = FleetUpdate { fleet: "fleet".into(), changes: ["a", "b"].map(|name| Change::Put(put(name))).into() };
    let request = DeltaDiscoveryRequest {
        node: Some(Node { id: "node".into(), ..Node::default() }),
        type_url: TypeUrl::Cluster.as_str().into(),
        resource_names_subscribe: vec!["a".into(), "none".into()],
        ..DeltaDiscoveryRequest::default()
    };
    let desk = Desk::new(runtime.handle(), protojson::DESCRIPTORS, vec![request.encode_to_vec().into()], update);
    (runtime, RefCell::new(desk.expect("a desk")))
}

/// One input.
pub fn run(data: &[u8]) {
    DESK.with(|(runtime, desk)| {
        let _inside = runtime.enter();
        let _ = ask(&mut desk.borrow_mut(), &mut Unstructured::new(data));
    });
}

fn ask(desk: &mut Desk, source: &mut Unstructured<'_>) -> Result<()> {
    while !source.is_empty() {
        let (service, length) = (source.arbitrary::<u8>()?, source.int_in_range(0..=1000)?);
        let request = Bytes::copy_from_slice(source.bytes(length.min(source.len()))?);
        if let Ok(answer) = desk.ask(usize::from(service), request.clone()) {
            assert!(answer.len() <= LARGEST + request.len());
        }
    }
    Ok(())
}

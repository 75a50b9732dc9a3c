//! What a proxy says of itself to those who probe it.

use tests::wait;

use crate::world::World;

#[test]
fn a_proxy_is_ready_when_it_serves_and_not_any_more_when_it_ends() {
    let world = World::serving("probes");
    let pods = world.namespace.run(&[
        "get",
        "pods",
        "--selector=gateway.networking.k8s.io/gateway-name=edge",
        "--output=json",
    ]);
    let pods: serde_json::Value = serde_json::from_str(&pods).unwrap();
    let (name, address) =
        (pods["items"][0]["metadata"]["name"].as_str().unwrap(), &pods["items"][0]["status"]["podIP"]);
    let url = format!("http://{}:19003/ready", address.as_str().unwrap());
    let ask = || {
        let options = ["--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--max-time", "15"];
        world.namespace.lab.exec(&[["curl"].as_slice(), &options, &[url.as_str()]].concat())
    };
    assert_eq!(ask().as_deref(), Some("200"));
    world.namespace.run(&["delete", "pod", name, "--wait=false"]);
    wait::until("it is not ready, and still there", || (ask()? == "503").then_some(())).unwrap();
}

//! The one node: its object, and the Lease that says it is alive.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::now;
use crate::network::{NODE, NODE_NAME};

/// Where kubelet answers: logs.
pub(crate) const PORT: u16 = 10250;

/// What the node says it has. Nothing is enforced: pods may take what the machine gives.
pub(crate) const CPU: &str = "64";
pub(crate) const MEMORY: &str = "256Gi";

/// Who writes.
pub(crate) const MANAGER: &str = "kubelet";

/// Makes the node, ready. It has to be there before kube-proxy, which asks for its addresses.
pub(crate) async fn create(client: &Client) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let labels = json!({
        "kubernetes.io/hostname": NODE_NAME,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "topology.kubernetes.io/region": "lab",
        "topology.kubernetes.io/zone": "lab-a",
    });
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": NODE_NAME, "labels": labels },
        "spec": { "podCIDR": "10.244.0.0/16", "podCIDRs": ["10.244.0.0/16"] },
    });
    let parameters = PatchParams::apply(MANAGER).force();
    nodes.patch(NODE_NAME, &parameters, &Patch::Apply(&node)).await?;
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": "",
            "lastHeartbeatTime": seconds(), "lastTransitionTime": seconds(),
        })
    };
    let room = json!({ "cpu": CPU, "memory": MEMORY, "pods": "1000", "ephemeral-storage": MEMORY });
    let status = json!({ "status": {
        "addresses": [{ "type": "InternalIP", "address": NODE }, { "type": "Hostname", "address": NODE_NAME }],
        "capacity": room,
        "allocatable": room,
        "daemonEndpoints": { "kubeletEndpoint": { "Port": PORT } },
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID"),
            condition("Ready", "True", "KubeletReady"),
        ],
        "nodeInfo": {
            "kubeletVersion": "v1.36.4-lab", "containerRuntimeVersion": "lab://1", "operatingSystem": "linux", "osImage": "lab",
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "kernelVersion": std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
            "kubeProxyVersion": "", "machineID": "lab", "systemUUID": "lab", "bootID": "lab",
        },
    }});
    nodes.patch_status(NODE_NAME, &PatchParams::default(), &Patch::Merge(&status)).await?;
    Ok(())
}

fn seconds() -> String {
    now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// How often the Lease is renewed, and for how long it holds, as kubelet does it.
const RENEW: Duration = Duration::from_secs(10);
const HOLDS: i32 = 40;

/// Renews the node's Lease, for ever.
pub(crate) async fn keep_lease(client: Client) {
    const NAMESPACE: &str = "kube-node-lease";
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    if let Ok(namespace) = serde_json::from_value(namespace) {
        // the API server makes it too, a little later
        let _there = namespaces.create(&PostParams::default(), &namespace).await;
    }
    let leases: Api<Lease> = Api::namespaced(client, NAMESPACE);
    loop {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "name": NODE_NAME },
            "spec": {
                "holderIdentity": NODE_NAME,
                "leaseDurationSeconds": HOLDS,
                "renewTime": now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
            },
        });
        if let Err(error) = leases.patch(NODE_NAME, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&lease)).await {
            tracing::debug!("lease: {error}");
        }
        tokio::time::sleep(RENEW).await;
    }
}

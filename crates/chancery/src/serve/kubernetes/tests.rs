//! Where objects of proxies are looked for.

use std::sync::Arc;

use api::envoy_gateway::{Deploy, DeployType, KubernetesProvider, Watch, WatchType};
use infra::kubernetes::Scope;

use super::pods_scope;

#[test]
fn objects_of_proxies_are_looked_for_where_the_chart_gives_rights_for_them() {
    let of = |watch: Option<&[&str]>, deploy_type| {
        let watch = watch.map(|names| Watch {
            watch_type: WatchType::Namespaces,
            namespaces: names.iter().map(|name| (*name).into()).collect(),
            namespace_selector: None,
        });
        let provider = KubernetesProvider {
            watch,
            deploy: Deploy { deploy_type, ..Deploy::default() },
            ..KubernetesProvider::default()
        };
        match pods_scope(&provider, &Arc::from("own")) {
            Scope::All => vec!["everywhere".to_owned()],
            Scope::Namespaces(names) => names.iter().map(ToString::to_string).collect(),
        }
    };
    assert_eq!(of(None, DeployType::GatewayNamespace), ["everywhere"]);
    assert_eq!(of(Some(&["a"]), DeployType::GatewayNamespace), ["a", "own"]);
    assert_eq!(of(None, DeployType::ControllerNamespace), ["own"]);
    assert_eq!(of(Some(&["a"]), DeployType::ControllerNamespace), ["own"]);
}

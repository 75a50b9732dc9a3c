//! That nothing of somebody else is touched.

use serde_json::Value;
use tests::wait;

use crate::harness::Namespace;
use crate::stage::{Stage, fleet, name, settings};

/// What tells whether somebody has written an object.
fn version(object: &Value) -> Value {
    object["metadata"]["resourceVersion"].clone()
}

#[test]
fn a_foreign_object_is_left_alone_until_it_is_gone() {
    let namespace = Namespace::make("foreign");
    let gateway = fleet("foreign", "gw");
    let name = name(&gateway);
    namespace.run(&["create", "configmap", &name, "--from-literal=mine=yes"]);
    let object = format!("configmap/{name}");
    let before = namespace.get(&object).unwrap();

    let mut stage = Stage::new(&namespace.lab, "foreign", &["foreign"]);
    stage.want([&gateway]);
    stage.until_problem(&gateway.fleet, &["ConfigMap foreign/", "was not made by Chancery", "remove it"]);
    // everything else is made
    namespace.until("the Service", &format!("service/{name}"), |_| Some(()));
    stage.want([]);
    stage.until_gone(&gateway.fleet);
    assert_eq!(namespace.get(&object).unwrap(), before);

    stage.want([&gateway]);
    stage.until_problem(&gateway.fleet, &["was not made by Chancery"]);
    assert_eq!(namespace.get(&object).unwrap(), before);
    namespace.run(&["delete", &object]);
    stage.until_ready(&gateway.fleet);
    assert!(namespace.get(&object).unwrap()["data"].get("mine").is_none());
}

#[test]
fn of_two_gateways_that_want_one_name_the_second_waits() {
    let namespace = Namespace::make("rivals");
    let mut stage = Stage::new(&namespace.lab, "rivals", &["rivals"]);
    let (mut first, mut second) = (fleet("rivals", "first"), fleet("rivals", "second"));
    for gateway in [&mut first, &mut second] {
        settings(gateway).service.name = Some("shared".into());
    }
    stage.want([&first]);
    stage.until_ready(&first.fleet);
    let before = namespace.get("service/shared").unwrap();
    stage.want([&first, &second]);
    stage.until_problem(&second.fleet, &["Service rivals/shared is that of the Gateway rivals/first", "another name"]);
    let address = |state: &infra::kubernetes::PodsState| state.addresses.first().copied();
    assert_eq!(stage.told(&second.fleet).unwrap().unwrap().addresses, []);
    assert_eq!(namespace.get("service/shared").unwrap()["spec"], before["spec"]);
    // it comes into its own when the first goes
    stage.want([&second]);
    stage.until_ready(&second.fleet);
    stage.until("an address", &second.fleet, address);
}

#[test]
fn two_installations_do_not_touch_each_others_objects() {
    let namespace = Namespace::make("installations");
    let mut one = Stage::new(&namespace.lab, "installation-one", &["installations"]);
    let mut two = Stage::new(&namespace.lab, "installation-two", &["installations"]);
    let (gateway, other) = (fleet("installations", "gw"), fleet("installations", "other"));
    one.want([&gateway]);
    one.until_ready(&gateway.fleet);
    let object = format!("configmap/{}", name(&gateway));
    let before = version(&namespace.get(&object).unwrap());
    // it wants nothing of the first, then the same
    two.want([&other]);
    two.until_ready(&other.fleet);
    two.want([&other, &gateway]);
    two.until_problem(&gateway.fleet, &["made by another installation of Chancery"]);
    two.want([]);
    two.until_gone(&other.fleet);
    assert_eq!(version(&namespace.get(&object).unwrap()), before);
    one.want([]);
    one.until_gone(&gateway.fleet);
}

#[test]
fn what_an_earlier_process_left_is_removed_once_it_is_known_who_is_wanted() {
    let namespace = Namespace::make("orphans");
    let (kept, gone) = (fleet("orphans", "kept"), fleet("orphans", "gone"));
    let mut stage = Stage::new(&namespace.lab, "orphans", &["orphans"]);
    stage.want([&kept, &gone]);
    stage.until_ready(&kept.fleet);
    stage.until_ready(&gone.fleet);
    stage.end();
    let object = |gateway| format!("deployment/{}", name(gateway));
    // Its version would be another one with each word of the cluster about it.
    let generation = || namespace.get(&object(&gone)).unwrap()["metadata"]["generation"].clone();
    let before = generation();

    let mut stage = Stage::new(&namespace.lab, "orphans", &["orphans"]);
    // another one that shows that the first has been looking for a while
    let other = Stage::start(&namespace.lab, "orphans", &["orphans"], false);
    other.want([&kept]);
    let mut other = other;
    other.until_ready(&kept.fleet);
    assert_eq!(generation(), before);
    stage.want([&kept]);
    stage.until_ready(&kept.fleet);
    wait::until("the end of the other", || namespace.get(&object(&gone)).is_none().then_some(())).unwrap();
    assert!(namespace.get(&object(&kept)).is_some());
}

/// What keeps an object safe that comes between looking and making: the API server's word, which all of the above stands on.
#[test]
fn what_is_applied_to_a_version_that_never_was_makes_an_object_and_changes_none() {
    let namespace = Namespace::make("races");
    let object = |name: &str, mark: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ServiceAccount","metadata":{{"name":"{name}",{mark},"labels":{{"a":"b"}}}}}}"#
        )
    };
    let apply = |name: &str, mark: &str| {
        let path = format!("/api/v1/namespaces/races/serviceaccounts/{name}?fieldManager=chancery&force=true");
        let script = format!(
            "rm -f $1; kubectl proxy --unix-socket=$1 & trap 'kill $!' EXIT; until [ -S $1 ]; do sleep 0.01; done; \
             curl -s -o /dev/null -w '%{{http_code}}' --unix-socket $1 -X PATCH \
             -H 'content-type: application/apply-patch+yaml' -d '{}' 'http://localhost{path}'",
            object(name, mark)
        );
        let socket = namespace.lab.state().join(format!("{name}.{}.sock", mark.len()));
        let output = namespace.lab.exec(&["sh", "-c", &script, "sh", socket.to_str().unwrap()]).unwrap();
        output.lines().last().unwrap().to_owned()
    };
    let nobody = r#""resourceVersion":"1""#;
    assert_eq!(apply("new", nobody), "201");
    assert_eq!(apply("new", nobody), "409");
    assert_eq!(apply("default", nobody), "409");
    let gone = r#""resourceVersion":"1","uid":"00000000-0000-0000-0000-000000000000""#;
    assert_eq!(apply("default", gone), "409");
    assert_eq!(apply("none", gone), "409");
    assert!(namespace.get("serviceaccount/default").unwrap()["metadata"].get("labels").is_none());
}

//! What becomes of a container's word.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{Known, hostname, of};
use crate::container::Spec;
use crate::simlet::image::Image;

fn spec(container: Value) -> Result<Spec, String> {
    let mut container = container;
    container["name"] = json!("a");
    let volumes = json!([{ "name": "conf", "configMap": { "name": "conf" } }, { "name": "work", "emptyDir": {} }]);
    let spec = json!({ "containers": [container], "volumes": volumes });
    let pod: Pod = serde_json::from_value(json!({ "metadata": { "name": "web-0" }, "spec": spec })).unwrap();
    let image = Image {
        program: Some(("/tools/server".into(), "/usr/local/bin/server")),
        entrypoint: vec!["/usr/local/bin/server".to_owned()],
        arguments: vec!["--default".to_owned()],
        user: 0,
    };
    let known = Known { pod: &pod, sandbox: 1, folder: Path::new("/run/pod") };
    let variables = BTreeMap::from([("PORT".to_owned(), "80".to_owned())]);
    of(&known, &pod.spec.as_ref().unwrap().containers[0], &image, variables, "/run/pod/a".into())
}

fn check_command(container: Value, expect: &[&str]) {
    assert_eq!(spec(container).unwrap().command, expect);
}

#[test]
fn command_and_args_take_the_place_of_the_images() {
    check_command(json!({}), &["/usr/local/bin/server", "--default"]);
    check_command(json!({ "args": ["--port=$(PORT)"] }), &["/usr/local/bin/server", "--port=80"]);
    check_command(json!({ "command": ["sh"] }), &["sh"]);
    check_command(
        json!({ "command": ["sh", "-c"], "args": ["echo $(PORT) $(NONE)"] }),
        &["sh", "-c", "echo 80 $(NONE)"],
    );
}

#[test]
fn the_environment_has_what_every_program_expects() {
    let environment: BTreeMap<_, _> = spec(json!({})).unwrap().environment.into_iter().collect();
    assert_eq!(environment["HOSTNAME"], "web-0");
    assert!(environment["PATH"].contains("/usr/bin") && environment["PORT"] == "80");
}

#[test]
fn volumes_are_mounted_after_what_they_lie_in() {
    let mounts = json!([
        { "name": "conf", "mountPath": "/data/conf" },
        { "name": "work", "mountPath": "/data" },
        { "name": "conf", "mountPath": "/etc/hosts" },
    ]);
    let mounts = spec(json!({ "volumeMounts": mounts })).unwrap().mounts;
    let place = |target: &str| mounts.iter().position(|mount| mount.target == Path::new(target)).unwrap();
    assert!(place("/data") < place("/data/conf"));
    assert!(mounts[place("/data/conf")].read_only && !mounts[place("/data")].read_only);
    assert_eq!(mounts.iter().filter(|mount| mount.target == Path::new("/etc/hosts")).count(), 1);
}

#[test]
fn what_is_not_there_or_leads_out_is_refused() {
    assert!(spec(json!({ "volumeMounts": [{ "name": "none", "mountPath": "/x" }] })).is_err());
    assert!(spec(json!({ "volumeMounts": [{ "name": "conf", "mountPath": "/x", "subPath": "../y" }] })).is_err());
}

#[test]
fn a_hosts_name_has_63_bytes_at_most() {
    let name = format!("{}-{}", "a".repeat(62), "b".repeat(20));
    let pod: Pod = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
    assert_eq!(hostname(&pod), "a".repeat(62));
}

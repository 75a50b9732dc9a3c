//! Names of images, and what they stand for.

use std::path::Path;

use super::{NONROOT, find, parse};
use crate::place::Place;

fn check(name: &str, repository: &str, tag: &str) {
    assert_eq!(parse(name), (repository.to_owned(), tag), "{name}");
}

#[test]
fn short_names_are_of_docker_hub() {
    check("busybox", "docker.io/library/busybox", "latest");
    check("envoyproxy/envoy:v1.40.0", "docker.io/envoyproxy/envoy", "v1.40.0");
    check("localhost:5000/a/b", "localhost:5000/a/b", "latest");
    check("ghcr.io/chancery/chancery:1@sha256:00", "ghcr.io/chancery/chancery", "1");
}

#[test]
fn the_table_knows_programs_entrypoints_and_users() {
    let place = Place::find(Some(Path::new("nowhere"))).unwrap();
    let echo = find(&place, "registry.k8s.io/gateway-api/conformance/echo-basic:v0.1.0").unwrap();
    assert_eq!((echo.entrypoint, echo.user), (vec!["/echo-basic".to_owned()], NONROOT));
    let envoy = |tag: &str| find(&place, &format!("docker.io/envoyproxy/envoy:{tag}")).unwrap();
    assert_eq!((envoy("v1.40.0").user, envoy("distroless-v1.40.0").user), (0, NONROOT));
    assert_eq!(find(&place, "lab/machine").unwrap().program, None);
}

#[test]
fn what_is_not_in_the_table_is_unknown() {
    let place = Place::find(None).unwrap();
    for name in ["nginx", "ghcr.io/chancery/other", "example.com/envoyproxy/envoy:v1.40.0"] {
        assert_eq!(find(&place, name), None, "{name}");
    }
}

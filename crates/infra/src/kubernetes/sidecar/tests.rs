//! What is in the `ConfigMap`.

use super::super::object::tests::options;
use super::*;

#[test]
fn it_says_where_the_control_plane_is_and_whom_to_trust() {
    let found = config_map("shop", &options());
    let file = |name: &str| found["data"][name].as_str().unwrap_or_default().to_owned();
    let bootstrap: Value = serde_json::from_str(&file("bootstrap.json")).expect("JSON");
    assert!(bootstrap.to_string().contains("chancery.chancery-system.svc"));
    assert_eq!(bootstrap["admin"]["address"]["socketAddress"]["address"], "127.0.0.1", "others may not stop it");
    assert!(file("xds-authorities.json").contains("PEM"));
    assert!(file("xds-token.json").contains("/var/run/secrets/chancery/token"));
}

#[test]
fn another_authority_is_another_content() {
    let content = |options: &ClusterOptions| config_map("shop", options)["data"].clone();
    assert_eq!(content(&options()), content(&options()));
    assert_ne!(content(&options()), content(&ClusterOptions { authorities: "OTHER".into(), ..options() }));
}

#[test]
fn grpc_finds_its_own_bootstrap_and_authorities() {
    let found = config_map("shop", &options());
    let file = |name: &str| found["data"][name].as_str().unwrap_or_default().to_owned();
    let bootstrap: Value = serde_json::from_str(&file("grpc-bootstrap.json")).expect("JSON");
    let server = &bootstrap["xds_servers"][0];
    assert_eq!(server["server_uri"], "chancery.chancery-system.svc:18000");
    let authorities = server["channel_creds"][0]["config"]["ca_certificate_file"].as_str().expect("a path");
    let (folder, name) = authorities.rsplit_once('/').expect("a folder");
    assert_eq!((folder, file(name)), ("/etc/chancery", options().authorities.to_string()));
    let token = &server["call_creds"][0];
    assert_eq!(token["type"], "jwt_token_file");
    assert_eq!(token["config"]["jwt_token_file"], "/var/run/secrets/chancery/token");
    assert!(server["channel_creds"].as_array().expect("a list").iter().all(|creds| creds["type"] != "insecure"));
}

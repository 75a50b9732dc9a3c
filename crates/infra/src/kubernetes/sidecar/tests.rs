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

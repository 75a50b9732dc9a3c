//! The table as the command line fills it.

use clap::Parser as _;

use super::*;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    run: RunArgs,
}

fn is_own(line: &[&str], of_cluster: bool, path: &str) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let layout = Layout::open(folder.path(), None).expect("a layout");
    let args = Line::try_parse_from([&["chancery"], line].concat()).expect("arguments").run;
    let service = of_cluster.then(|| ("chancery".into(), "chancery-system".into()));
    let places = places(&args, &layout, folder.path(), service);
    places.folders.iter().any(|own| Path::new(path).starts_with(own))
}

#[test]
fn pods_own_sockets_and_tokens_are_chancerys_in_a_cluster() {
    let line = ["--config=/dev/null", "--backend-sockets=/run", "--backend-sockets=/var/run"];
    for path in [
        "/run/chancery/admin.sock",
        "/var/run/chancery/admin.sock",
        "/opt/chancery/a",
        "/etc/chancery/a",
        "/var/run/secrets/kubernetes.io/serviceaccount/token",
        "/run/secrets/chancery/token",
    ] {
        assert!(is_own(&line, true, path), "{path}");
        assert!(!is_own(&line, false, path), "{path} of this machine");
    }
    assert!(!is_own(&line, true, "/run/csi/agent.sock"));
}

#[test]
fn all_replicas_of_an_installation_close_the_same_addresses() {
    let own = ClosedAddresses {
        listeners: ["0.0.0.0:18000", "0.0.0.0:8081"].map(|text| text.parse().expect("an address")).into(),
        ..ClosedAddresses::default()
    };
    let all = OwnAddresses {
        service: ["10.96.88.186:443".parse().expect("an address")].into(),
        replicas: [[10, 244, 1, 22].into(), [10, 244, 1, 23].into()].into(),
        node_ports: [31_000].into(),
    };
    let now = addresses(&own, &all);
    for (ip, port, expected) in [
        ([10, 244, 1, 22], 8081, true),
        ([10, 244, 1, 23], 18000, true),
        ([10, 244, 1, 23], 80, false),
        ([10, 96, 88, 186], 443, true),
        ([10, 96, 88, 186], 80, false),
        ([10, 244, 1, 24], 8081, false),
        ([192, 168, 0, 4], 31_000, true),
        ([192, 168, 0, 4], 31_001, false),
    ] {
        assert_eq!(now.is_own(ip.into(), port), expected, "{ip:?} port {port}");
    }
    // Each replica may listen at its own address alone.
    let own = ClosedAddresses {
        listeners: ["10.244.1.22:18000", "127.0.0.1:8081"].map(|text| text.parse().expect("an address")).into(),
        ..ClosedAddresses::default()
    };
    let now = addresses(&own, &all);
    for (ip, port, expected) in
        [([10, 244, 1, 23], 18000, true), ([10, 244, 1, 23], 8081, false), ([10, 244, 1, 24], 18000, false)]
    {
        assert_eq!(now.is_own(ip.into(), port), expected, "{ip:?} port {port}");
    }
    assert_eq!(
        addresses(&own, &OwnAddresses::default()).listeners,
        own.listeners,
        "an address that is gone is open again"
    );
}

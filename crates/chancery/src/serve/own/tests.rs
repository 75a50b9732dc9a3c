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
    let places = places(&args, &layout, folder.path(), of_cluster);
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

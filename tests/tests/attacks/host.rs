//! Other users of the machine.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use tests::binary;
use tests::client::get;
use tests::objects::gateway;
use tests::ports::free_ports;
use tests::running::Running;
use tests::wait;

/// A user other than the one that runs the tests.
const OTHER_USER: u32 = 65534;

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// The words of `chancery run` about a state folder that it refuses.
fn refused(state: &Path) -> String {
    let place = TempDir::new().unwrap();
    let words = ["run", "--no-envoy", "--dir", place.path().to_str().unwrap(), "--state-dir", state.to_str().unwrap()];
    let output = binary::run(words, "").unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn state_folder_that_another_user_could_change_is_refused() {
    let place = TempDir::new().unwrap();
    let (above, state) = (place.path().join("above"), place.path().join("above/state"));
    std::fs::create_dir_all(&state).unwrap();
    for folder in [&state, &above] {
        mode(folder, 0o777);
        let refusal = refused(&state);
        assert!(refusal.contains("is writable by every user") && refusal.contains("--state-dir"), "{refusal}");
        mode(folder, 0o700);
    }
    mode(&above, 0o777);
    let link = place.path().join("link");
    symlink(&state, &link).unwrap();
    assert!(refused(&link).contains("is writable by every user"));
    mode(&above, 0o700);
    assert!(nix::unistd::geteuid().is_root(), "run it as root: only root can make folders of others");
    chown(&state, Some(OTHER_USER), Some(OTHER_USER)).unwrap();
    assert!(refused(&state).contains("belongs to user 65534"));
}

#[test]
fn program_named_envoy_in_the_current_folder_is_not_run() {
    let place = TempDir::new().unwrap();
    // A program of its own, which no project is around.
    let program = place.path().join("bin/chancery");
    std::fs::create_dir(place.path().join("bin")).unwrap();
    std::fs::copy(binary::chancery().unwrap(), &program).unwrap();
    let current = place.path().join("current");
    let marker = place.path().join("was-run");
    for folder in ["", ".tools/envoy/1.40.0/bin"] {
        let folder = current.join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let text =
            format!("#!/bin/sh\ntouch {}\necho 'envoy  version: 0/1.40.0/Clean/RELEASE/BoringSSL'\n", marker.display());
        std::fs::write(folder.join("envoy"), text).unwrap();
        mode(&folder.join("envoy"), 0o755);
    }
    let [port] = free_ports().unwrap();
    std::fs::write(current.join("gateway.yaml"), gateway(port)).unwrap();
    let mut run = Command::new(&program);
    run.args(["run", "--dir", "gateway.yaml", "--state-dir"]).arg(place.path().join("state")).current_dir(&current);
    let output = binary::run_to_end(run.env("PATH", ".::current").env_remove("CHANCERY_ENVOY")).unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("no usable Envoy"), "{words}");
    assert!(!marker.exists());
}

#[test]
fn envoy_that_could_not_be_recorded_serves_on_over_a_restart() {
    let [port] = free_ports().unwrap();
    let mut running = Running::prepare().unwrap();
    running.write("gateway.yaml", &gateway(port)).unwrap();
    running.start().unwrap();
    wait::until("the Gateway", || get(port, "x.example", "/").ok()).unwrap();
    let before = running.envoys();
    running.kill_chancery().unwrap();
    // As a full disk leaves it.
    for folder in std::fs::read_dir(running.state().join("gateways")).unwrap().flatten() {
        std::fs::remove_file(folder.path().join("envoy.pid")).unwrap();
    }
    running.start().unwrap();
    wait::until("the adoption", || running.log().contains("adopted the envoy").then_some(())).unwrap();
    assert_eq!(running.envoys(), before);
}

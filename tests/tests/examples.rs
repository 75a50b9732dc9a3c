//! Every folder of `examples/` is right: `chancery validate` has nothing to say about it, and Envoy accepts what it becomes.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tests::backend::Backend;
use tests::client::{get, get_tls};
use tests::ports::free_ports;
use tests::running::Running;
use tests::{binary, wait};

#[test]
fn every_example_is_without_errors_and_warnings() {
    let examples = examples().unwrap();
    assert!(examples.len() >= 9, "only {} examples", examples.len());
    for example in examples {
        let place = complete(&example).unwrap();
        let output = binary::run(["validate".as_ref(), "-f".as_ref(), place.path().as_os_str()], "").unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}:\n{told}", example.display());
        assert!(told.contains(" 0 errors, 0 warnings"), "{}:\n{told}", example.display());
    }
}

#[test]
fn envoy_accepts_what_every_example_becomes() {
    for example in examples().unwrap() {
        let place = complete(&example).unwrap();
        let options = ["translate", "--to", "envoy", "--output", "json", "--show-secrets", "-f"];
        let words = options.iter().map(AsRef::as_ref).chain([place.path().as_os_str()]);
        let output = binary::run(words, "").unwrap();
        assert!(output.status.success(), "{}: {}", example.display(), String::from_utf8_lossy(&output.stderr));
        // Not in the folder of the objects, and `.json`, by which Envoy tells the format.
        let made = tempfile::tempdir().unwrap();
        let file = made.path().join("envoy.json");
        std::fs::write(&file, &output.stdout).unwrap();
        let envoy = Command::new(binary::envoy().unwrap())
            .args(["--mode", "validate", "--log-level", "error", "--disable-hot-restart", "-c"])
            .arg(&file)
            .output()
            .unwrap();
        assert!(envoy.status.success(), "{}: {}", example.display(), String::from_utf8_lossy(&envoy.stderr));
    }
}

#[test]
fn the_https_example_redirects_and_serves() {
    let place = complete(&binary::root().join("examples/https")).unwrap();
    let shop = Backend::start("shop").unwrap();
    let [http, https] = free_ports().unwrap();
    let mut running = Running::prepare().unwrap();
    for name in ["gateway.yaml", "routes.yaml", "services.yaml", "certificate.yaml"] {
        let text = std::fs::read_to_string(place.path().join(name)).unwrap();
        // The ports of the example may be taken here.
        let text = [("8080", http), ("8443", https), ("9001", shop.port)]
            .iter()
            .fold(text, |text, (written, port)| text.replace(&format!("port: {written}"), &format!("port: {port}")));
        running.write(name, &text).unwrap();
    }
    running.start().unwrap();
    let secret = std::fs::read_to_string(place.path().join("certificate.yaml")).unwrap();
    let certificate: String = secret
        .lines()
        .map(|line| format!("{}\n", line.trim()))
        .skip_while(|line| !line.contains("BEGIN CERTIFICATE"))
        .take_while(|line| !line.contains("tls.key"))
        .collect();
    let served = wait::until("an answer over HTTPS", || {
        get_tls(https, "shop.localhost", "/any/path", &[&certificate]).ok().filter(|(answer, _)| answer.status == 200)
    });
    assert_eq!(served.unwrap().0.body, "shop");
    assert_eq!(get(http, "shop.localhost", "/any/path").unwrap().status, 301);
}

#[test]
fn a_certificate_is_never_part_of_the_repository() {
    for example in examples().unwrap().iter().filter(|example| example.join("certificate.sh").is_file()) {
        let ignored = std::fs::read_to_string(example.join(".gitignore")).unwrap();
        assert!(ignored.lines().any(|line| line == "certificate.yaml"), "{}", example.display());
    }
}

/// Folders with objects; those of `examples/raw`, which are below it, have tests of their own.
fn examples() -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(binary::root().join("examples"))? {
        let folder = entry?.path();
        if folder.is_dir() && !folder.ends_with("raw") {
            found.push(folder);
        }
    }
    found.sort();
    Ok(found)
}

/// A copy of an example with what its script makes. The script is run where it stands: a program that this process
/// wrote cannot be run for as long as a process that another test starts meanwhile holds the file open (ETXTBSY).
fn complete(example: &Path) -> anyhow::Result<TempDir> {
    let place = tempfile::tempdir()?;
    for entry in std::fs::read_dir(example)? {
        let file = entry?.path();
        // A certificate that somebody made while trying the example is not the one under test.
        let made = file.file_name().is_some_and(|name| name == "certificate.yaml");
        if let (false, Some(name), true) = (made, file.file_name(), file.is_file()) {
            std::fs::copy(&file, place.path().join(name))?;
        }
    }
    let script = example.join("certificate.sh");
    if script.is_file() {
        let output = Command::new(&script).arg(place.path()).output()?;
        anyhow::ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(place)
}

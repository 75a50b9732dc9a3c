//! Envoy alone: the same resources in a file, the same arguments, nobody to talk to.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;

use super::http;
use crate::process::{self, DEADLINE};

/// A process that ends with the measurement.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// From exec until it is live. `bootstrap` is the one that Chancery wrote for its Envoy: all but the resources and the
/// runtime is taken from there.
pub(super) fn time(envoy: &Path, bootstrap: &str, conf: &Path) -> anyhow::Result<Duration> {
    let output = Command::new(process::binary()?)
        .args(["translate", "--to", "envoy", "-o", "json", "--show-secrets", "-f"])
        .arg(conf)
        .stderr(Stdio::inherit())
        .output()?;
    let mut written: Value = serde_json::from_slice(&output.stdout).context("what `chancery translate` prints")?;
    let mut taken = |name: &str| {
        let part = written.get_mut(name).map(Value::take);
        part.with_context(|| format!("no {name} in what `chancery translate` prints"))
    };
    let (resources, runtime) = (taken("staticResources")?, taken("layeredRuntime")?);
    let mut whole: Value = serde_json::from_str(bootstrap)?;
    let place = tempfile::Builder::new().prefix("chancery-bench-").tempdir()?;
    let (file, socket) = (place.path().join("bootstrap.json"), place.path().join("admin.sock"));
    let fields = whole.as_object_mut().context("a bootstrap is an object")?;
    // without the server that it would report loads to
    let others = ["dynamic_resources", "dynamicResources", "cluster_manager", "clusterManager"];
    fields.retain(|name, _| !others.contains(&&**name));
    // as proto3's JSON has it, and nothing twice
    for (names, part) in
        [(["static_resources", "staticResources"], resources), (["layered_runtime", "layeredRuntime"], runtime)]
    {
        names.iter().for_each(|name| drop(fields.remove(*name)));
        fields.insert(names[1].to_owned(), part);
    }
    let admin = whole.pointer_mut("/admin/address/pipe/path").context("no admin socket in the bootstrap")?;
    *admin = Value::from(socket.to_string_lossy());
    std::fs::write(&file, serde_json::to_vec(&whole)?)?;
    drop((written, whole));

    let cores = std::thread::available_parallelism()?.get().min(8).to_string();
    let began = Instant::now();
    let child = Command::new(envoy)
        .arg("-c")
        .arg(&file)
        .args(["--disable-hot-restart", "--concurrency", &cores, "--log-level", "error"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(place.path().join("log"))?)
        .spawn()?;
    let mut child = Ended(child);
    let runs = |child: &mut Ended| {
        let ended = child.0.try_wait()?;
        anyhow::ensure!(ended.is_none(), "Envoy alone has ended: {ended:?}");
        Ok(())
    };
    wait_live(&socket, began, || runs(&mut child)).map_err(|error| {
        let log = std::fs::read_to_string(place.path().join("log")).unwrap_or_default();
        error.context(log)
    })?;
    let took = began.elapsed();
    runs(&mut child)?;
    Ok(took)
}

/// Waits until the Envoy behind this admin socket says that it is live, as long as what it needs `runs`.
pub(super) fn wait_live(
    admin: &Path,
    began: Instant,
    mut runs: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    while !http::admin(admin, "/ready").is_ok_and(|text| text.contains("LIVE")) {
        runs()?;
        anyhow::ensure!(began.elapsed() < DEADLINE, "Envoy is not live in {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

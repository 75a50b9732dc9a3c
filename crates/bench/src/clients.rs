//! clients: no figure. Fails where the scripted clients do not get what Chancery serves, so that all other benchmarks would.

use crate::ads::Client;
use crate::crowd::Crowd;
use crate::dataset::{self, Endpoints, ROUTES_PER_HOST};
use crate::figure::Report;
use crate::process::Chancery;

const ROUTES: usize = 10;

/// Clients of the crowd.
const CLIENTS: usize = 2;

/// Starts a Chancery, and waits until one client and a crowd have everything.
pub(crate) fn run(_: &mut Report) -> anyhow::Result<()> {
    let (place, conf) = Chancery::place()?;
    dataset::write(&conf, ROUTES, 18_080, Endpoints::Elsewhere(8080))?;
    let mut chancery = Chancery::start(place, None)?;
    chancery.wait_ready()?;
    let socket = chancery.socket("xds.sock")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime
        .block_on(async { Client::connect(&socket).await?.complete(ROUTES, ROUTES.div_ceil(ROUTES_PER_HOST)).await })?;
    let mut crowd = Crowd::start(&format!("unix:{}", socket.display()), CLIENTS, 0)?;
    crowd.wait_for("complete", |status| status.get("received") as usize >= ROUTES * CLIENTS)?;
    Ok(())
}

//! Who is connected, and how each stands to what its fleet has: for the people whose clients these are. CSDS ([`super::status`]) tells a client the same of
//! its own fleet, name by name.

use std::net::IpAddr;
use std::sync::Arc;

use super::streams::SharedClient;
use super::{Shared, locked};
use crate::event::Node;
use crate::resource::TypeUrl;
use crate::session::{Holding, Standing};
use crate::snapshot::Look;

/// Refusals of a client that are told in words; of more their number is. Each has at most some kilobytes.
pub const MOST_REFUSALS: usize = 32;

/// A client that is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientState {
    /// Whose configuration it gets.
    pub fleet: Arc<str>,
    /// Who it says it is.
    pub node: Arc<Node>,
    /// Where it comes from; none: a Unix socket.
    pub from: Option<IpAddr>,
    /// Names whose resource it has acknowledged as it is now.
    pub accepted: usize,
    /// Names whose resource it has been sent, without an answer yet, or will be.
    pub pending: usize,
    /// Names whose resource it refuses as it is now.
    pub refused: usize,
    /// The first [`MOST_REFUSALS`] of these.
    pub refusals: Vec<Refusal>,
}

/// A resource that a client refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its kind.
    pub type_url: TypeUrl,
    /// Its name.
    pub name: Arc<str>,
    /// The client's words; they hold nothing secret.
    pub words: Arc<str>,
}

/// All of them, by fleet, and within it as they came.
pub(super) fn all(shared: &Shared) -> Vec<ClientState> {
    let cells: Vec<_> = locked(&shared.fleets).values().cloned().collect();
    cells.iter().flat_map(|cell| cell.clients.clients()).filter_map(|client| state(&client)).collect()
}

fn state(client: &SharedClient) -> Option<ClientState> {
    // one client at a time: others of the fleet are served in between
    let holdings = client.look(|session| {
        let fleet = locked(&client.cell.fleet);
        let mut holdings = session.holdings(&fleet);
        // Who asks for what there is not has been told so: nothing of it is pending.
        let is_there = |holding: &Holding| fleet.snapshot().current(&holding.type_url, &holding.name).is_some();
        holdings.retain(|holding| holding.standing != Standing::NotSent || is_there(holding));
        holdings
    })?;
    let mut state = ClientState {
        fleet: Arc::clone(&client.fleet),
        node: Arc::clone(&client.node),
        from: client.from,
        accepted: 0,
        pending: 0,
        refused: 0,
        refusals: Vec::new(),
    };
    for holding in holdings {
        match holding.standing {
            Standing::Synced => state.accepted += 1,
            Standing::Stale | Standing::NotSent => state.pending += 1,
            Standing::Refused(words) => {
                state.refused += 1;
                if state.refusals.len() < MOST_REFUSALS {
                    state.refusals.push(Refusal { type_url: holding.type_url, name: holding.name, words });
                }
            }
        }
    }
    Some(state)
}

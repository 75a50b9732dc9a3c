//! Addresses to give away, one after the other, so that one that was given back rests for a while.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// The addresses from the first to the last.
#[derive(Debug)]
pub(crate) struct Pool {
    first: u32,
    last: u32,
    next: u32,
    taken: BTreeSet<u32>,
}

impl Pool {
    pub(crate) fn new(first: Ipv4Addr, last: Ipv4Addr) -> Self {
        Self { first: first.to_bits(), last: last.to_bits(), next: first.to_bits(), taken: BTreeSet::new() }
    }

    /// One that nobody has, unless all are taken. Those that end in 0 or 255 stay free: some programs take them for a network's own.
    pub(crate) fn take(&mut self) -> Option<Ipv4Addr> {
        for _ in self.first..=self.last {
            let address = self.next;
            self.next = if address == self.last { self.first } else { address + 1 };
            if !matches!(address & 0xff, 0 | 0xff) && self.taken.insert(address) {
                return Some(Ipv4Addr::from_bits(address));
            }
        }
        None
    }

    /// Takes this one. False: it is not in the pool, or somebody has it.
    pub(crate) fn take_this(&mut self, address: Ipv4Addr) -> bool {
        (self.first..=self.last).contains(&address.to_bits()) && self.taken.insert(address.to_bits())
    }

    pub(crate) fn release(&mut self, address: Ipv4Addr) {
        self.taken.remove(&address.to_bits());
    }
}

#[cfg(test)]
mod tests;

//! Powers: what resources as users wrote them may do only where the operator allows it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{RawFault, RawRefusal};

/// Something that a resource can do to the proxy's machine beyond what it does with requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Power {
    /// Reads or writes files of the proxy.
    Files,
    /// Reads environment variables of the proxy.
    Environment,
    /// Reaches the proxy's admin interface and its connection to the control plane.
    Admin,
    /// Runs code in the proxy: Lua, Wasm, Go, dynamic modules.
    Lua,
    /// Connects to or listens on sockets that are no network addresses.
    Sockets,
}

impl Power {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Files, Self::Environment, Self::Admin, Self::Lua, Self::Sockets];

    /// The word by which the operator allows it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Environment => "environment",
            Self::Admin => "admin",
            Self::Lua => "lua",
            Self::Sockets => "sockets",
        }
    }

    /// The power of a word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|power| power.word() == word)
    }
}

/// A use of a power in a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PowerUse {
    /// The power.
    pub power: Power,
    /// Its purpose in words, with the value that says it: `reads or writes the file /etc/passwd`.
    pub what: Box<str>,
    /// The field's path in the resource, as in [`RawFault`].
    pub path: Box<str>,
}

/// The powers that the operator allows; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Powers(u8);

/// Characters of what a resource does that a message repeats: enough for a path of a file.
pub(super) const SHOWN: usize = 120;

/// Refused uses of one resource that are named, one line each; the others show when these are gone.
pub(super) const NAMED: usize = 8;

impl Powers {
    /// Returns these powers with one more.
    #[must_use]
    pub fn with(self, power: Power) -> Self {
        Self(self.0 | 1 << power as u8)
    }

    /// Returns the powers of either.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns true if the power is allowed.
    #[must_use]
    pub fn has(self, power: Power) -> bool {
        self.0 & 1 << power as u8 != 0
    }

    /// Returns a fault for each use that is not allowed, with the values that would allow it; one for what needs several powers.
    pub fn refuse<'u>(self, uses: impl Iterator<Item = &'u PowerUse>) -> Vec<RawFault> {
        let mut refused: Vec<(&PowerUse, Vec<&str>)> = Vec::new();
        let mut places = BTreeMap::new();
        for found in uses.filter(|found| !self.has(found.power)) {
            let next = refused.len();
            let place = *places.entry((&found.what, &found.path)).or_insert(next);
            match refused.get_mut(place) {
                Some((_, words)) => words.push(found.power.word()),
                None => refused.push((found, vec![found.power.word()])),
            }
        }
        let fault = |(found, words): (&PowerUse, Vec<&str>)| {
            let what: String = found.what.chars().take(SHOWN).collect();
            let text = format!(
                "it {what}, which is not allowed: the resource is refused; the operator allows it with {} in \
                 extensionApis.rawResources of the static configuration, or --raw-resources {}",
                words.join(", "),
                words.join(",")
            );
            RawFault::new(found.path.clone(), text).refusing(RawRefusal::Power)
        };
        refused.into_iter().take(NAMED).map(fault).collect()
    }
}

impl FromIterator<Power> for Powers {
    fn from_iter<I: IntoIterator<Item = Power>>(powers: I) -> Self {
        powers.into_iter().fold(Self::default(), Self::with)
    }
}

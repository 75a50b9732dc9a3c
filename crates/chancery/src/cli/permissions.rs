//! Permissions of the operator for authors of objects, the same for every verb that reads objects: what reaches beyond requests, and what is served
//! unguarded.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use ir::raw::{Power, Powers};
use translator::UnsupportedPolicies;

/// Permissions in addition to those of the static configuration.
#[derive(Debug, Clone, Args)]
pub(crate) struct PermissionArgs {
    /// Treatment of routes and Gateways with a policy (`SecurityPolicy` and others) that guards them with fields which this version does not
    /// support: `deny` answers 500 for all of them, `allow` serves them as if the policy was not there, so that what it guards is open [default: as
    /// `unsupportedPolicies` of the static configuration says, else deny]
    #[arg(long, value_name = "WORD", value_enum)]
    unsupported_policies: Option<PolicyWord>,
    /// Let Envoy's own resources (`bootes.io`, `chancery.io`) and patches of an `EnvoyPatchPolicy` do this to the machine of their proxies, in addition to
    /// `extensionApis.rawResources` of the static configuration; nothing of it by default
    #[arg(long, value_name = "POWER", value_enum, value_delimiter = ',')]
    raw_resources: Vec<PowerWord>,
    /// Let backends lead to link-local addresses (169.254.0.0/16, fe80::/10) and to the metadata services of clouds, where a machine gets its
    /// credentials, as with `extensionApis.enableLinkLocalBackends` of the static configuration
    #[arg(long)]
    pub(crate) allow_link_local: bool,
    /// Folder with Unix sockets that a `Backend` may name, at any depth; repeats. Without it: on this machine any socket but those of Chancery and
    /// its Envoys, in a cluster none
    #[arg(long, value_name = "DIR")]
    backend_sockets: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PolicyWord {
    /// They answer 500
    Deny,
    /// They are served unguarded
    Allow,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PowerWord {
    /// Read and write files of the proxy
    Files,
    /// Read environment variables of the proxy
    Environment,
    /// Reach the proxy's admin interface and its connection to Chancery
    Admin,
    /// Run code in the proxy: Lua, Wasm, Go, dynamic modules
    Lua,
    /// Use Unix sockets and internal listeners
    Sockets,
}

impl PermissionArgs {
    /// Returns the word on policies that are not supported.
    pub(crate) fn unsupported_policies(&self) -> Option<UnsupportedPolicies> {
        self.unsupported_policies.map(|word| match word {
            PolicyWord::Deny => UnsupportedPolicies::Deny,
            PolicyWord::Allow => UnsupportedPolicies::Allow,
        })
    }

    /// Returns the powers of raw resources and patches.
    pub(crate) fn powers(&self) -> Powers {
        let power = |word: &PowerWord| match word {
            PowerWord::Files => Power::Files,
            PowerWord::Environment => Power::Environment,
            PowerWord::Admin => Power::Admin,
            PowerWord::Lua => Power::Lua,
            PowerWord::Sockets => Power::Sockets,
        };
        self.raw_resources.iter().map(power).collect()
    }

    /// Returns the folders whose sockets backends may name, by each of their names.
    pub(crate) fn socket_roots(&self) -> Vec<PathBuf> {
        by_each_name(self.backend_sockets.iter().map(PathBuf::as_path))
    }
}

/// Returns the names that were given, absolute, and those without links.
pub(crate) fn by_each_name<'a>(folders: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    let names = folders.flat_map(|folder| [std::path::absolute(folder), std::fs::canonicalize(folder)]);
    names.filter_map(Result::ok).collect()
}

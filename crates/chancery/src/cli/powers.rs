//! `--raw-resources` and `--allow-link-local`: powers of objects that reach beyond requests.

use clap::{Args, ValueEnum};
use ir::raw::{Power, Powers};

/// Powers that the operator allows in addition to those of the static configuration.
#[derive(Debug, Clone, Args)]
pub(crate) struct PowerArgs {
    /// Let Envoy's own resources (`bootes.io`, `chancery.io`) and patches of an `EnvoyPatchPolicy` do this to the machine of their proxies, in addition to
    /// `extensionApis.rawResources` of the static configuration; nothing of it by default
    #[arg(long, value_name = "POWER", value_enum, value_delimiter = ',')]
    raw_resources: Vec<Word>,
    /// Let backends lead to link-local addresses (169.254.0.0/16, fe80::/10) and to the metadata services of clouds, where a machine gets its
    /// credentials, as with `extensionApis.enableLinkLocalBackends` of the static configuration
    #[arg(long)]
    pub(crate) allow_link_local: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Word {
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

impl PowerArgs {
    /// As the translator takes it.
    pub(crate) fn powers(&self) -> Powers {
        let power = |word: &Word| match word {
            Word::Files => Power::Files,
            Word::Environment => Power::Environment,
            Word::Admin => Power::Admin,
            Word::Lua => Power::Lua,
            Word::Sockets => Power::Sockets,
        };
        self.raw_resources.iter().map(power).collect()
    }
}

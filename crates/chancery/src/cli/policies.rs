//! `--unsupported-policies`: what becomes of what policies guard in a way that is not built.

use clap::{Args, ValueEnum};
use translator::UnsupportedPolicies;

/// The treatment of policies whose fields are not supported.
#[derive(Debug, Clone, Args)]
pub(crate) struct PolicyArgs {
    /// Treatment of routes and Gateways with a policy (`SecurityPolicy` and others) that guards them with fields which this version does not
    /// support: `deny` answers 500 for all of them, `allow` serves them as if the policy was not there, so that what it guards is open [default: as
    /// `unsupportedPolicies` of the static configuration says, else deny]
    #[arg(long, value_name = "WORD", value_enum)]
    unsupported_policies: Option<Word>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Word {
    /// They answer 500
    Deny,
    /// They are served unguarded
    Allow,
}

impl PolicyArgs {
    /// As the translator takes it.
    pub(crate) fn said(&self) -> Option<UnsupportedPolicies> {
        self.unsupported_policies.map(|word| match word {
            Word::Deny => UnsupportedPolicies::Deny,
            Word::Allow => UnsupportedPolicies::Allow,
        })
    }
}

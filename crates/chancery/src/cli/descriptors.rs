//! `--descriptors`: filters that Envoy's own API does not have.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use protojson::Pool;

/// Descriptors of messages that are not Envoy's own.
#[derive(Debug, Clone, Args)]
pub(crate) struct DescriptorArgs {
    /// Descriptors of private filters, so that their `@type`s are known in Envoy's own resources: an encoded FileDescriptorSet, as `protoc
    /// --include_imports --descriptor_set_out` or `chancery proxy descriptors` writes it; repeats
    #[arg(long, value_name = "FILE")]
    descriptors: Vec<PathBuf>,
}

impl DescriptorArgs {
    /// Makes them known to the whole process. To be called before anything is read.
    pub(crate) fn install(&self) -> anyhow::Result<()> {
        if self.descriptors.is_empty() {
            return Ok(());
        }
        let mut pool = Pool::of_envoy();
        for file in &self.descriptors {
            let set = std::fs::read(file).with_context(|| format!("--descriptors {}", file.display()))?;
            pool.add(&set).with_context(|| {
                format!(
                    "--descriptors {}: no descriptor set with all that it imports and without what Envoy has under that name \
                    (write it with `protoc --include_imports --descriptor_set_out`, or `chancery proxy descriptors`)",
                    file.display()
                )
            })?;
        }
        pool.install().map_err(|_| anyhow::anyhow!("descriptors are in use before --descriptors was read"))
    }
}

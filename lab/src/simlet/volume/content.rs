//! What is in a volume that the API server knows: files with their modes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::core::v1::{
    ConfigMapProjection, DownwardAPIVolumeFile, KeyToPath, SecretProjection, ServiceAccountTokenProjection, Volume,
    VolumeProjection,
};
use kube::ResourceExt as _;

use super::token::Wanted;
use super::{Of, Tokens};
use crate::simlet::{downward, security};

/// Files by their paths, which have no `..`.
pub(crate) type Content = BTreeMap<String, Entry>;

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) bytes: Vec<u8>,
    pub(crate) mode: u32,
    /// Root unless given.
    pub(crate) owner: Option<u32>,
}

/// Of files whose mode is not given.
const MODE: i32 = 0o644;

/// The content of a volume; None for a kind of volume that has none.
pub(super) async fn content(of: &Of<'_>, volume: &Volume, tokens: &mut Tokens) -> Result<Option<Content>, String> {
    let mut content = Content::new();
    if let Some(wanted) = volume.secret.clone() {
        let source = SecretProjection {
            name: wanted.secret_name.unwrap_or_default(),
            items: wanted.items,
            optional: wanted.optional,
        };
        secret(of, &source, wanted.default_mode.unwrap_or(MODE), &mut content)?;
    } else if let Some(wanted) = volume.config_map.clone() {
        let source = ConfigMapProjection { name: wanted.name, items: wanted.items, optional: wanted.optional };
        config_map(of, &source, wanted.default_mode.unwrap_or(MODE), &mut content)?;
    } else if let Some(wanted) = &volume.downward_api {
        let mode = wanted.default_mode.unwrap_or(MODE);
        fields(of, wanted.items.as_deref().unwrap_or_default(), mode, &mut content)?;
    } else if let Some(wanted) = &volume.projected {
        let mode = wanted.default_mode.unwrap_or(MODE);
        for source in wanted.sources.iter().flatten() {
            project(of, source, mode, (&mut content, tokens)).await?;
        }
    } else {
        return Ok(None);
    }
    Ok(Some(content))
}

/// One source of a projected volume.
async fn project(
    of: &Of<'_>,
    source: &VolumeProjection,
    mode: i32,
    (content, tokens): (&mut Content, &mut Tokens),
) -> Result<(), String> {
    if let Some(source) = &source.secret {
        secret(of, source, mode, content)?;
    }
    if let Some(source) = &source.config_map {
        config_map(of, source, mode, content)?;
    }
    if let Some(source) = &source.downward_api {
        fields(of, source.items.as_deref().unwrap_or_default(), mode, content)?;
    }
    if let Some(source) = &source.service_account_token {
        token(of, source, mode, (content, tokens)).await?;
    }
    if source.cluster_trust_bundle.is_some() || source.pod_certificate.is_some() {
        return Err("projections of trust bundles and pod certificates are not what this node has".to_owned());
    }
    Ok(())
}

fn secret(of: &Of<'_>, source: &SecretProjection, mode: i32, content: &mut Content) -> Result<(), String> {
    let found = of.context.world.secret(&of.pod.namespace().unwrap_or_default(), &source.name);
    let wanted = Pick { what: "secret", name: &source.name, items: source.items.as_deref(), optional: source.optional };
    wanted.pick(found.as_deref().map(of_secret), mode, content)
}

fn of_secret(secret: &Secret) -> BTreeMap<String, Vec<u8>> {
    secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())).collect()
}

fn config_map(of: &Of<'_>, source: &ConfigMapProjection, mode: i32, content: &mut Content) -> Result<(), String> {
    let found = of.context.world.config_map(&of.pod.namespace().unwrap_or_default(), &source.name);
    let wanted =
        Pick { what: "configmap", name: &source.name, items: source.items.as_deref(), optional: source.optional };
    wanted.pick(found.as_deref().map(of_config_map), mode, content)
}

fn of_config_map(map: &ConfigMap) -> BTreeMap<String, Vec<u8>> {
    let texts = map.data.iter().flatten().map(|(key, value)| (key.clone(), value.clone().into_bytes()));
    texts.chain(map.binary_data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone()))).collect()
}

/// What a volume wants of a Secret or `ConfigMap`.
struct Pick<'a> {
    what: &'static str,
    name: &'a str,
    /// All keys without.
    items: Option<&'a [KeyToPath]>,
    optional: Option<bool>,
}

impl Pick<'_> {
    /// All keys as files, or those that are named.
    fn pick(&self, all: Option<BTreeMap<String, Vec<u8>>>, mode: i32, content: &mut Content) -> Result<(), String> {
        let Self { what, name, items, optional } = self;
        let optional = *optional == Some(true);
        let Some(all) = all else {
            return if optional { Ok(()) } else { Err(format!("{what} \"{name}\" not found")) };
        };
        let Some(items) = items.filter(|items| !items.is_empty()) else {
            content.extend(all.into_iter().map(|(key, bytes)| (key, entry(bytes, mode))));
            return Ok(());
        };
        for item in items {
            match all.get(&item.key) {
                Some(bytes) => {
                    content.insert(item.path.clone(), entry(bytes.clone(), item.mode.unwrap_or(mode)));
                }
                None if optional => {}
                None => return Err(format!("{what} \"{name}\" has no key {}", item.key)),
            }
        }
        Ok(())
    }
}

fn fields(of: &Of<'_>, items: &[DownwardAPIVolumeFile], mode: i32, content: &mut Content) -> Result<(), String> {
    for item in items {
        let text = match (&item.field_ref, &item.resource_field_ref) {
            (Some(field), _) => downward::field(of.pod, of.address, &field.field_path)?,
            (None, Some(resource)) => downward::resource(of.pod, None, resource)?,
            (None, None) => continue,
        };
        content.insert(item.path.clone(), entry(text.into_bytes(), item.mode.unwrap_or(mode)));
    }
    Ok(())
}

async fn token(
    of: &Of<'_>,
    source: &ServiceAccountTokenProjection,
    mode: i32,
    (content, tokens): (&mut Content, &mut Tokens),
) -> Result<(), String> {
    const HOUR: i64 = 3600;
    let wanted = Wanted { audience: source.audience.clone(), seconds: source.expiration_seconds.unwrap_or(HOUR) };
    let text = tokens.get(of, wanted).await?;
    // whoever else runs on the node must not read it, if it can be given to the pod's own user or group
    let owner = security::common_user(of.pod);
    let narrow = owner.is_some() || security::of_pod(of.pod).fs_group.is_some();
    let mode = if narrow { 0o600 } else { mode };
    content.insert(source.path.clone(), Entry { owner, ..entry(text.into_bytes(), mode) });
    Ok(())
}

fn entry(bytes: Vec<u8>, mode: i32) -> Entry {
    Entry { bytes, mode: u32::try_from(mode).unwrap_or(0o644), owner: None }
}

//! What of Envoy's `Secret` comes from a Secret of Kubernetes.

use api::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json, json};

use crate::secret::{Bundle, Pair, read_bundle, read_pair};

/// What a secret can be: the field of Envoy's message in both spellings.
const CERTIFICATE: [&str; 2] = ["tls_certificate", "tlsCertificate"];
const VALIDATION: [&str; 2] = ["validation_context", "validationContext"];
const TICKETS: [&str; 2] = ["session_ticket_keys", "sessionTicketKeys"];
const GENERIC: [&str; 2] = ["generic_secret", "genericSecret"];

/// Where what is secret would stand: below the first, in one of the others.
const PRIVATE: [([&str; 2], &[&str]); 3] = [
    (CERTIFICATE, &["private_key", "privateKey", "private_key_provider", "privateKeyProvider", "password", "pkcs12"]),
    (TICKETS, &["keys"]),
    (GENERIC, &["secret", "secrets"]),
];

/// What a source of data says when it holds the data itself.
const INLINE: [&str; 4] = ["inline_bytes", "inlineBytes", "inline_string", "inlineString"];

/// The path of something secret that stands in the text.
pub(super) fn inline(config: &Json) -> Option<String> {
    PRIVATE.iter().find_map(|(field, members)| {
        let (name, value) = field.iter().find_map(|name| Some((name, config.get(name)?)))?;
        let held = members.iter().find(|member| value.get(member).is_some_and(holds))?;
        Some(format!("{name}.{held}"))
    })
}

/// The path of what has nothing secret in it, not even the name of a file, and is of no use so; empty: there is nothing at all.
pub(super) fn lacking(config: &Json) -> Option<&'static str> {
    if VALIDATION.iter().any(|name| config.get(name).is_some()) {
        return None;
    }
    let found = PRIVATE.iter().find_map(|(field, members)| {
        field.iter().find_map(|name| Some((*name, config.get(name)?))).map(|(name, value)| (name, value, members))
    });
    match found {
        None => Some(""),
        Some((name, value, members)) => members.iter().all(|member| value.get(member).is_none()).then_some(name),
    }
}

/// Whether what is wrong at this path is that the keys are missing which the Secret would bring: nothing else of what it brings has to be there.
pub(super) fn comes_later(path: &str) -> bool {
    TICKETS.iter().any(|name| path.starts_with(name))
}

fn holds(value: &Json) -> bool {
    match value {
        Json::Array(items) => items.iter().any(holds),
        Json::Object(fields) => fields.iter().any(|(name, value)| INLINE.contains(&name.as_str()) || holds(value)),
        _ => false,
    }
}

/// The config with what the Secret holds in its place: a pair of certificate and key, certificates to trust, keys of session tickets or any
/// secret, as the config says; where it says nothing, as the Secret's entries do. The words of an error never repeat what is in it.
pub(super) fn filled(config: &Json, secret: &Secret, key: Option<&str>) -> Result<Json, String> {
    let Json::Object(mut fields) = config.clone() else { return Err("spec.config is no map".to_owned()) };
    let has = |names: [&str; 2]| names.iter().any(|name| fields.contains_key(*name));
    let holds = |name: &str| secret.spec.get(name).is_some();
    let bare = ![CERTIFICATE, VALIDATION, TICKETS, GENERIC].into_iter().any(has);
    let (names, content) = if has(CERTIFICATE) || bare && key.is_none() && holds("tls.crt") {
        (CERTIFICATE, certificate(secret)?)
    } else if has(VALIDATION) || bare && key.is_none() && holds("ca.crt") {
        let Bundle { text, .. } = read_bundle(entry(secret, key.unwrap_or("ca.crt"))?)?;
        (VALIDATION, Map::from_iter([("trusted_ca".to_owned(), source(&text))]))
    } else if has(TICKETS) {
        (TICKETS, Map::from_iter([("keys".to_owned(), tickets(secret, key)?)]))
    } else {
        (GENERIC, generic(secret, key)?)
    };
    let name = names.into_iter().find(|name| fields.contains_key(*name)).unwrap_or("generic_secret");
    let name = if bare { names.first().copied().unwrap_or(name) } else { name };
    match fields.entry(name).or_insert_with(|| json!({})) {
        Json::Object(own) => own.extend(content),
        other => *other = Json::Object(content),
    }
    Ok(Json::Object(fields))
}

fn certificate(secret: &Secret) -> Result<Map<String, Json>, String> {
    let (chain, key) = (entry(secret, "tls.crt")?, entry(secret, "tls.key")?);
    let Pair { chain, key, .. } = read_pair(chain, key)?;
    Ok(Map::from_iter([("certificate_chain".to_owned(), source(&chain)), ("private_key".to_owned(), source(&key))]))
}

/// Bytes of a key of session tickets (Envoy `TlsSessionTicketKeys.keys`): it refuses others.
const TICKET_KEY: usize = 80;

fn tickets(secret: &Secret, key: Option<&str>) -> Result<Json, String> {
    let wrong = |name: &str, bytes: &[u8]| {
        let count = bytes.len();
        format!("its entry {name} has {count} bytes, and a key of session tickets has {TICKET_KEY}")
    };
    let keys = entries(secret, key)?.map(|(name, bytes)| match bytes.len() {
        TICKET_KEY => Ok(source(bytes)),
        _ => Err(wrong(name, bytes)),
    });
    keys.collect::<Result<Vec<_>, _>>().map(Json::Array)
}

/// The one entry, or all by their names.
fn generic(secret: &Secret, key: Option<&str>) -> Result<Map<String, Json>, String> {
    let all: Vec<_> = entries(secret, key)?.collect();
    Ok(match all.as_slice() {
        [(_, bytes)] => Map::from_iter([("secret".to_owned(), source(bytes))]),
        all => {
            let named = all.iter().map(|(name, bytes)| ((*name).to_owned(), source(bytes)));
            Map::from_iter([("secrets".to_owned(), Json::Object(named.collect()))])
        }
    })
}

fn entries<'s>(secret: &'s Secret, key: Option<&'s str>) -> Result<impl Iterator<Item = (&'s str, &'s [u8])>, String> {
    let names: Vec<&str> = key.map_or_else(|| secret.spec.keys().collect(), |key| vec![key]);
    if names.is_empty() {
        return Err("it is empty".to_owned());
    }
    let all: Result<Vec<_>, String> = names.into_iter().map(|name| Ok((name, entry(secret, name)?))).collect();
    Ok(all?.into_iter())
}

fn entry<'s>(secret: &'s Secret, name: &str) -> Result<&'s [u8], String> {
    let found = secret.spec.get(name).filter(|content| !content.is_empty());
    found.ok_or_else(|| format!("it has no entry {name}"))
}

/// `DataSource`.
fn source(bytes: &[u8]) -> Json {
    json!({ "inline_bytes": STANDARD.encode(bytes) })
}

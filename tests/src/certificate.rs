//! Certificates and keys, made when a test runs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType, date_time_ymd};

/// A certificate with its key, both PEM.
#[derive(Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// Makes a self-signed certificate for these names (DNS names, wildcards too, and URIs), valid from 2020 to 2049, or expired since 2021.
///
/// # Errors
/// If a name cannot stand in a certificate.
pub fn self_signed(names: &[&str], expired: bool) -> anyhow::Result<Pair> {
    let (uris, names): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| name.contains("://"));
    let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
    for uri in uris {
        params.subject_alt_names.push(SanType::URI(uri.try_into()?));
    }
    // Who looks for an issuer looks for its name.
    params.distinguished_name.push(DnType::CommonName, names.first().copied().unwrap_or_default());
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(if expired { 2021 } else { 2049 }, 1, 1);
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Makes a self-signed certificate of an authority: with it others are issued, and nobody can show it as their own.
///
/// # Errors
/// If a name cannot stand in a certificate.
pub fn authority(name: &str) -> anyhow::Result<Pair> {
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// What an authority gives to a server of this name, which is not the authority's own.
///
/// # Errors
/// If it is no authority, or the name cannot stand in a certificate.
pub fn issued(name: &str, authority: &Pair) -> anyhow::Result<Pair> {
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, KeyPair::from_pem(&authority.key)?)?;
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Replaces marks in a text by material made now: `@cert(NAME)` and `@key(NAME)` become the base64 of one pair per name,
/// `@cert(NAME,expired)` one that has expired, `@pem(NAME)` the certificate as a quoted text. The same name gives the same pair as long as `Marks` lives.
#[derive(Default)]
pub struct Marks(Mutex<BTreeMap<String, Pair>>);

impl Marks {
    /// The text with every mark replaced.
    ///
    /// # Errors
    /// If a certificate cannot be made.
    pub fn fill(&self, text: &str) -> anyhow::Result<String> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = ["@cert(", "@key(", "@pem("].iter().filter_map(|mark| rest.find(mark)).min() {
            let (before, mark) = rest.split_at(at);
            filled.push_str(before);
            let open = mark.find('(').unwrap_or_default();
            let close = mark.find(')').ok_or_else(|| anyhow::anyhow!("a mark without its closing bracket"))?;
            let (kind, name) = (mark.get(..open).unwrap_or_default(), mark.get(open + 1..close).unwrap_or_default());
            let pair = self.pair(name)?;
            filled.push_str(&match kind {
                "@cert" => base64(pair.certificate.as_bytes()),
                "@key" => base64(pair.key.as_bytes()),
                _ => serde_json::to_string(&pair.certificate)?,
            });
            rest = mark.get(close + 1..).unwrap_or_default();
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn pair(&self, mark: &str) -> anyhow::Result<Pair> {
        let mut pairs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pair) = pairs.get(mark) {
            return Ok(pair.clone());
        }
        let (name, expired) = match mark.split_once(',') {
            Some((name, word)) => (name, word.trim() == "expired"),
            None => (mark, false),
        };
        let pair = self_signed(&[name], expired)?;
        pairs.insert(mark.to_owned(), pair.clone());
        Ok(pair)
    }
}

/// Standard base64 with padding (RFC 4648 section 4).
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| char::from(DIGITS.get((bits & 63) as usize).copied().unwrap_or(b'='));
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        text.push(digit(bits >> 18));
        text.push(digit(bits >> 12));
        text.push(if chunk.len() > 1 { digit(bits >> 6) } else { '=' });
        text.push(if chunk.len() > 2 { digit(bits) } else { '=' });
    }
    text
}

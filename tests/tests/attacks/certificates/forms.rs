//! The forms of PEM that users have, and the outcome of each.

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_RSA_SHA256, SignatureAlgorithm,
    date_time_ymd,
};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tests::certificate::base64;

/// A form of a certificate and its key.
pub(super) struct Form {
    pub(super) name: &'static str,
    pub(super) chain: Vec<u8>,
    pub(super) key: Vec<u8>,
    pub(super) outcome: Outcome,
}

/// The outcome of a form.
#[derive(Clone)]
pub(super) enum Outcome {
    /// It is shown to clients that trust these.
    Serves(Vec<String>),
    /// Its listener says so.
    Says(&'static str),
}

/// A leaf for every host of the tenant, from an intermediate authority.
struct Chain {
    leaf: String,
    intermediate: String,
    key: KeyPair,
}

impl Chain {
    fn make(algorithm: &'static SignatureAlgorithm, expired: bool) -> anyhow::Result<Self> {
        let authority_key = KeyPair::generate()?;
        let mut of_authority = CertificateParams::new(Vec::new())?;
        of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        of_authority.distinguished_name.push(DnType::CommonName, "intermediate");
        if expired {
            (of_authority.not_before, of_authority.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        }
        let intermediate = of_authority.self_signed(&authority_key)?.pem();
        let key = KeyPair::generate_for(algorithm)?;
        let leaf = CertificateParams::new(vec!["*.x.example".to_owned()])?;
        let leaf = leaf.signed_by(&key, &Issuer::from_params(&of_authority, &authority_key))?.pem();
        Ok(Self { leaf: unix(&leaf), intermediate: unix(&intermediate), key })
    }

    fn text(&self) -> String {
        format!("{}{}", self.leaf, self.intermediate)
    }

    fn pkcs8(&self) -> String {
        unix(&self.key.serialize_pem())
    }

    fn served(&self) -> Outcome {
        Outcome::Serves(vec![self.leaf.clone(), self.intermediate.clone()])
    }
}

/// Every form that the table of the attack has.
pub(super) fn forms() -> anyhow::Result<Vec<Form>> {
    let (ec, rsa) = (Chain::make(&rcgen::PKCS_ECDSA_P256_SHA256, false)?, Chain::make(&PKCS_RSA_SHA256, false)?);
    let mut forms = of_chains(&ec)?;
    forms.extend(of_keys(&ec, &rsa)?);
    forms.extend(unusable(&ec));
    Ok(forms)
}

/// Chains that are served, whatever stands around their blocks.
fn of_chains(ec: &Chain) -> anyhow::Result<Vec<Form>> {
    let text = ec.text();
    let attributes = format!("Bag Attributes\n    localKeyID: 01 02\nsubject=CN = x\n{text}");
    let expired = Chain::make(&rcgen::PKCS_ECDSA_P256_SHA256, true)?;
    let mut forms: Vec<Form> = [
        ("plain", text.clone()),
        ("joined", text.replace("-----\n-----", "----------")),
        ("cr", text.replace('\n', "\r")),
        ("crlf", text.replace('\n', "\r\n")),
        ("bom", format!("\u{feff}{text}")),
        ("leading-text", format!("issued for x\n{text}")),
        ("leading-on-line", format!("issued for x {text}")),
        ("bag-attributes", attributes),
        ("blank-lines", text.replace('\n', "\n\n")),
        ("long-lines", long_lines(&text)),
        ("trailing-spaces", text.replace('\n', "  \n")),
        ("tabs", text.replace('\n', "\n\t")),
        ("no-last-line-end", text.trim_end().to_owned()),
        ("duplicate-leaf", format!("{}{text}", ec.leaf)),
        ("x509-label", text.replace(" CERTIFICATE", " X509 CERTIFICATE")),
        ("dh-parameters", format!("{text}-----BEGIN DH PARAMETERS-----\nMAYCAQUCAQI=\n-----END DH PARAMETERS-----\n")),
        ("key-first", format!("{}{text}", ec.pkcs8())),
        ("nul-behind", format!("{text}\0")),
    ]
    .into_iter()
    .map(|(name, chain)| ec.form(name, chain, ec.pkcs8(), ec.served()))
    .collect();
    forms.push(expired.form("expired-intermediate", expired.text(), expired.pkcs8(), expired.served()));
    Ok(forms)
}

/// Keys in each encoding, and what stands before them.
fn of_keys(ec: &Chain, rsa: &Chain) -> anyhow::Result<Vec<Form>> {
    let parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
    let (sec1, pkcs1) =
        (block("EC PRIVATE KEY", &sec1(ec)?), block("RSA PRIVATE KEY", &inside(&rsa.key.serialize_der())?));
    let encrypted = ec.pkcs8().replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let traditional = sec1.replacen("-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n", 1);
    let says = Outcome::Says("the key is encrypted");
    Ok(vec![
        rsa.form("pkcs8-rsa", rsa.text(), rsa.pkcs8(), rsa.served()),
        rsa.form("pkcs1", rsa.text(), pkcs1, rsa.served()),
        ec.form("sec1", ec.text(), sec1.clone(), ec.served()),
        ec.form("ec-parameters", ec.text(), format!("{parameters}{sec1}"), ec.served()),
        ec.form(
            "key-joined",
            ec.text(),
            format!("{parameters}{sec1}").replace("-----\n-----", "----------"),
            ec.served(),
        ),
        ec.form("key-cr", ec.text(), ec.pkcs8().replace('\n', "\r"), ec.served()),
        ec.form("encrypted", ec.text(), encrypted, says.clone()),
        ec.form("encrypted-traditional", ec.text(), traditional, says),
        ec.form("key-of-another", ec.text(), rsa.pkcs8(), Outcome::Says("does not belong")),
    ])
}

/// Forms that cannot be served.
fn unusable(ec: &Chain) -> Vec<Form> {
    let text = ec.text();
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let trusted = ec.leaf.replace(" CERTIFICATE", " TRUSTED CERTIFICATE");
    let says = |words| Outcome::Says(words);
    let bytes = |name, chain: Vec<u8>, outcome| Form { name, chain, key: ec.pkcs8().into(), outcome };
    vec![
        ec.form("reversed", format!("{}{}", ec.intermediate, ec.leaf), ec.pkcs8(), says("put that one first")),
        ec.form("trusted-label", trusted, ec.pkcs8(), says("TRUSTED CERTIFICATE")),
        ec.form("empty", String::new(), ec.pkcs8(), says("needs the keys tls.crt and tls.key")),
        ec.form("blank", "\n".to_owned(), ec.pkcs8(), says("no certificate in PEM")),
        ec.form("nul", text.replacen("\nM", "\n\0M", 1), ec.pkcs8(), says("not base64")),
        ec.form("twice", base64(text.as_bytes()), ec.pkcs8(), says("base64 of PEM")),
        ec.form("key-twice", text.clone(), base64(ec.pkcs8().as_bytes()), says("base64 of PEM")),
        ec.form("cut", text.trim_end().trim_end_matches('-').to_owned(), ec.pkcs8(), says("END line")),
        bytes("utf-16", utf16(&text), says("UTF-16")),
        bytes("utf-16-bom", utf16(&format!("\u{feff}{text}")), says("UTF-16")),
        bytes("version-4", of_version_four(&ec.leaf).into(), says("the proxies refuse its content")),
    ]
}

impl Chain {
    fn form(&self, name: &'static str, chain: String, key: String, outcome: Outcome) -> Form {
        Form { name, chain: chain.into(), key: key.into(), outcome }
    }
}

/// The first certificate of a text with a version that there is not: it can be read, and Envoy refuses it.
pub(super) fn of_version_four(certificate: &str) -> String {
    let der = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let version = [0xa0, 3, 2, 1, 2];
    let at = der.windows(version.len()).position(|part| part == version).unwrap();
    let mut der = der.to_vec();
    der[at + 4] = 3;
    block("CERTIFICATE", &der)
}

fn block(label: &str, der: &[u8]) -> String {
    let text = base64(der);
    let lines = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap().to_owned() + "\n");
    format!("-----BEGIN {label}-----\n{}-----END {label}-----\n", lines.collect::<String>())
}

fn long_lines(text: &str) -> String {
    let joined = text.replace('\n', "").replace("-----BEGIN", "\n-----BEGIN").replace("-----END", "\n-----END");
    joined.replace("CERTIFICATE-----", "CERTIFICATE-----\n")
}

fn unix(text: &str) -> String {
    text.replace('\r', "")
}

/// The content of the octets in a key of PKCS#8: a key of PKCS#1, or of SEC 1.
fn inside(pkcs8: &[u8]) -> anyhow::Result<Vec<u8>> {
    let (_, fields, _) = element(pkcs8)?;
    let (_, _, rest) = element(fields)?;
    let (_, _, rest) = element(rest)?;
    Ok(element(rest)?.1.to_vec())
}

/// A key of SEC 1 that names its curve.
fn sec1(chain: &Chain) -> anyhow::Result<Vec<u8>> {
    let der = chain.key.serialize_der();
    let inner = inside(PrivatePkcs8KeyDer::from(der.as_slice()).secret_pkcs8_der())?;
    let (_, fields, _) = element(&inner)?;
    let version_and_key = {
        let (_, _, rest) = element(fields)?;
        let (_, _, rest) = element(rest)?;
        fields.get(..fields.len() - rest.len()).context("fields")?
    };
    let rest = fields.get(version_and_key.len()..).context("fields")?;
    let curve: &[u8] = &[0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    let curve = if rest.first() == Some(&0xa0) { &[] } else { curve };
    let body = [version_and_key, curve, rest].concat();
    Ok([&[0x30, u8::try_from(body.len())?], body.as_slice()].concat())
}

/// The tag and the content of the first element of DER, and what is behind it.
fn element(der: &[u8]) -> anyhow::Result<(u8, &[u8], &[u8])> {
    let (tag, first, rest) = match der {
        [tag, first, rest @ ..] => (*tag, usize::from(*first), rest),
        _ => anyhow::bail!("no element"),
    };
    let count = first.saturating_sub(0x80);
    let (length, rest) = rest.split_at_checked(count).context("a length")?;
    let length = if count == 0 { first } else { length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)) };
    let (content, rest) = rest.split_at_checked(length).context("an element")?;
    Ok((tag, content, rest))
}

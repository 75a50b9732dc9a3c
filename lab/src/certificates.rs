//! Keys and certificates of a run: an authority, the API server's certificate, the key that signs tokens of service accounts.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// Names and addresses of the API server; the last is the Service `kubernetes`.
const API_SERVER: [&str; 8] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
    "127.0.0.1",
    "10.244.0.1",
    "10.96.0.1",
];

/// Writes them into a folder: `ca.crt`, `apiserver.crt`, `apiserver.key`, `sa.pub`, `sa.key`.
pub(crate) fn write(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    let key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    authority.distinguished_name.push(DnType::CommonName, "lab");
    let certificate = authority.self_signed(&key)?;
    let issuer = Issuer::new(authority, key);

    let own = KeyPair::generate()?;
    let server = CertificateParams::new(API_SERVER.map(str::to_owned).to_vec())?.signed_by(&own, &issuer)?;
    let tokens = KeyPair::generate()?;
    for (name, text) in [
        ("ca.crt", certificate.pem()),
        ("apiserver.crt", server.pem()),
        ("apiserver.key", own.serialize_pem()),
        ("sa.pub", tokens.public_key_pem()),
        ("sa.key", tokens.serialize_pem()),
    ] {
        private(&folder.join(name), &text)?;
    }
    Ok(())
}

/// Writes a file that nobody else may read.
pub(crate) fn private(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).with_context(|| format!("writing {}", path.display()))
}

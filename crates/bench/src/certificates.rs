//! Certificates for the time of a benchmark: an authority, the server's and one that all clients share.

use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsConnector;
use xds::Pem;

/// The server's name.
pub(crate) const SERVER: &str = "server";

/// Writes them into a folder.
pub(crate) fn write(folder: &Path) -> anyhow::Result<()> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate()?;
    std::fs::write(folder.join("authority.pem"), params.self_signed(&key)?.pem())?;
    let issuer = Issuer::new(params, key);
    for name in [SERVER, "client"] {
        let (params, key) = (CertificateParams::new([name.to_owned()])?, KeyPair::generate()?);
        std::fs::write(folder.join(format!("{name}.pem")), params.signed_by(&key, &issuer)?.pem())?;
        std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem())?;
    }
    Ok(())
}

/// What the server needs of them.
pub(crate) fn pem(folder: &Path) -> anyhow::Result<Pem> {
    let read = |name: &str| std::fs::read(folder.join(name));
    Ok(Pem {
        certificate: read("server.pem")?,
        key: read("server.key")?,
        client_ca: read("authority.pem")?,
        anonymous: false,
    })
}

/// What a client needs of them. No session is resumed: each connection is a whole handshake.
pub(crate) fn connector(folder: &Path) -> anyhow::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.join("authority.pem"))?)?;
    let certificate = CertificateDer::from_pem_file(folder.join("client.pem"))?;
    let key = PrivateKeyDer::from_pem_file(folder.join("client.key"))?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

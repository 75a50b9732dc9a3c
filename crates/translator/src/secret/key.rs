//! Private keys: of a type that Envoy takes, and the one that belongs to the certificate.

use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, KeyPair,
};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::x509::SubjectPublicKeyInfo;

/// Envoy takes ECDSA on these curves, and RSA of 2048 bits and more.
const CURVES: [&EcdsaSigningAlgorithm; 3] =
    [&ECDSA_P256_SHA256_ASN1_SIGNING, &ECDSA_P384_SHA384_ASN1_SIGNING, &ECDSA_P521_SHA512_ASN1_SIGNING];

/// Whether a key in PEM belongs to the public key of a certificate. The error never quotes the key.
pub(super) fn check(public: &SubjectPublicKeyInfo<'_>, key: &[u8]) -> Result<(), &'static str> {
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "it holds no private key in PEM, or an encrypted one")?;
    let found = public_part(&key)?;
    if found == *public.subject_public_key.data { Ok(()) } else { Err("the key does not belong to the certificate") }
}

fn public_part(key: &PrivateKeyDer<'_>) -> Result<Vec<u8>, &'static str> {
    let rsa = match key {
        PrivateKeyDer::Pkcs1(der) => rsa::KeyPair::from_der(der.secret_pkcs1_der()).ok(),
        PrivateKeyDer::Pkcs8(der) => rsa::KeyPair::from_pkcs8(der.secret_pkcs8_der()).ok(),
        _ => None,
    };
    if let Some(pair) = rsa {
        return Ok(pair.public_key().as_ref().to_vec());
    }
    let ecdsa = |curve: &'static EcdsaSigningAlgorithm| match key {
        PrivateKeyDer::Pkcs8(der) => EcdsaKeyPair::from_pkcs8(curve, der.secret_pkcs8_der()).ok(),
        PrivateKeyDer::Sec1(der) => EcdsaKeyPair::from_private_key_der(curve, der.secret_sec1_der()).ok(),
        _ => None,
    };
    let pair = CURVES.into_iter().find_map(ecdsa);
    pair.map(|pair| pair.public_key().as_ref().to_vec())
        .ok_or("the key cannot be used: RSA of 2048 bits and more, and ECDSA on P-256, P-384 and P-521 can")
}

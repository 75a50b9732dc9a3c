//! Private keys: of a type that Envoy takes, and the one that belongs to the certificate.

use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, KeyPair,
};
use x509_parser::der_parser::{Oid, oid};
use x509_parser::x509::{AlgorithmIdentifier, SubjectPublicKeyInfo};

use super::pem;

/// Envoy accepts ECDSA on these curves, and RSA of 2048 bits and more.
const CURVES: [(&EcdsaSigningAlgorithm, Oid<'static>); 3] = [
    (&ECDSA_P256_SHA256_ASN1_SIGNING, oid!(1.2.840.10045.3.1.7)),
    (&ECDSA_P384_SHA384_ASN1_SIGNING, oid!(1.3.132.0.34)),
    (&ECDSA_P521_SHA512_ASN1_SIGNING, oid!(1.3.132.0.35)),
];

/// `rsaEncryption` (RFC 3279).
const RSA: Oid<'static> = oid!(1.2.840.113549.1.1.1);

/// `id-ecPublicKey` (RFC 5480).
const EC: Oid<'static> = oid!(1.2.840.10045.2.1);

const ENCRYPTED: &str = "the key is encrypted: store it decrypted";
const NO_KEY: &str = "it holds no private key in PEM";
const UNUSABLE: &str = "the key cannot be used: RSA of 2048 to 4096 bits, and ECDSA on P-256, P-384 and P-521 can";

/// Largest modulus of an RSA key, in bytes: 4,096 bits, as public authorities have it. Clients choose how many handshakes there are, and all hosts of a
/// proxy share its threads: Envoy 1.40 needs 1.5 ms of CPU for a handshake with P-256, 2.5 ms with P-521, 5.2 ms with RSA of 4,096 bits, and 31 ms with
/// 8,192 bits, where 32 handshakes a second fill a thread.
const MOST_MODULUS: usize = 4096 / 8;

/// Labels of private keys, and how what is below them is encoded.
const LABELS: [(&str, Encoding); 3] =
    [("PRIVATE KEY", Encoding::Pkcs8), ("RSA PRIVATE KEY", Encoding::Pkcs1), ("EC PRIVATE KEY", Encoding::Sec1)];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Pkcs8,
    Pkcs1,
    Sec1,
}

/// A private key with the public key that belongs to it.
pub(super) struct PrivateKey {
    /// The one block of PEM.
    pub(super) pem: Vec<u8>,
    /// The public key as certificates have it.
    public: Vec<u8>,
    /// None for RSA.
    curve: Option<Oid<'static>>,
}

impl PrivateKey {
    /// The first private key of a text. The error never quotes the text.
    pub(super) fn read(text: &[u8]) -> Result<Self, String> {
        for block in pem::blocks(text) {
            let block = block.map_err(|defect| defect.to_string())?;
            if block.label == "ENCRYPTED PRIVATE KEY" {
                return Err(ENCRYPTED.to_owned());
            }
            let Some((label, encoding)) = LABELS.iter().find(|(label, _)| *label == block.label) else { continue };
            let der = block.der().map_err(|defect| match defect {
                pem::Defect::Encrypted(_) => ENCRYPTED.to_owned(),
                defect => defect.to_string(),
            })?;
            let (public, curve) = public_part(*encoding, &der)?;
            let mut pem = Vec::new();
            pem::write(&mut pem, label, &der);
            return Ok(Self { pem, public, curve });
        }
        Err(pem::mistaken(text).unwrap_or(NO_KEY).to_owned())
    }

    /// It belongs to the public key of a certificate.
    pub(super) fn belongs_to(&self, public: &SubjectPublicKeyInfo<'_>) -> bool {
        self.public == *public.subject_public_key.data && self.has_algorithm(&public.algorithm)
    }

    /// The algorithm is written as Envoy reads it: RSA without parameters, a curve by its name.
    fn has_algorithm(&self, AlgorithmIdentifier { algorithm, parameters }: &AlgorithmIdentifier<'_>) -> bool {
        let Some(parameters) = parameters else { return false };
        match &self.curve {
            None => *algorithm == RSA && parameters.as_null().is_ok(),
            Some(curve) => *algorithm == EC && parameters.as_oid().is_ok_and(|named| named == *curve),
        }
    }
}

/// The public key of a certificate is one of RSA.
pub(super) fn is_rsa(public: &SubjectPublicKeyInfo<'_>) -> bool {
    public.algorithm.algorithm == RSA
}

fn public_part(encoding: Encoding, der: &[u8]) -> Result<(Vec<u8>, Option<Oid<'static>>), String> {
    let rsa = match encoding {
        Encoding::Pkcs1 => rsa::KeyPair::from_der(der).ok(),
        Encoding::Pkcs8 => rsa::KeyPair::from_pkcs8(der).ok(),
        Encoding::Sec1 => None,
    };
    if let Some(pair) = rsa {
        if pair.public_modulus_len() > MOST_MODULUS {
            let most = MOST_MODULUS * 8;
            return Err(format!(
                "the RSA key has more than {most} bits, which costs the proxy too much for each connection: use RSA of 2048 to {most} bits, or ECDSA"
            ));
        }
        return Ok((pair.public_key().as_ref().to_vec(), None));
    }
    let ecdsa = |algorithm: &'static EcdsaSigningAlgorithm| match encoding {
        Encoding::Pkcs8 => EcdsaKeyPair::from_pkcs8(algorithm, der).ok(),
        Encoding::Sec1 => EcdsaKeyPair::from_private_key_der(algorithm, der).ok(),
        Encoding::Pkcs1 => None,
    };
    let mut curves = CURVES.into_iter();
    let (pair, curve) = curves.find_map(|(algorithm, curve)| Some((ecdsa(algorithm)?, curve))).ok_or(UNUSABLE)?;
    Ok((pair.public_key().as_ref().to_vec(), Some(curve)))
}

//! Any certificate and any `authorization` header: nobody is who the certificate or the verifier does not say, and a verifier is asked about
//! tokens only.

use std::sync::{Arc, LazyLock};
use std::time::Instant;

use arbitrary::{Result, Unstructured};
use rcgen::{CertificateParams, KeyPair, SanType};
use tokio::runtime::Runtime;
use xds::fuzzing::admit;
use xds::{Fleets, Gate, Identity, Limits, TokenError, VerifyToken, Verifying};

const LONGEST_TOKEN: usize = 8 << 10;

/// A token names its owner, unless it begins so.
const BAD: char = '!';

struct Verifier;

impl VerifyToken for Verifier {
    fn verify<'a>(&'a self, token: &'a str) -> Verifying<'a> {
        assert!(!token.is_empty() && token.len() <= LONGEST_TOKEN);
        let name = Arc::<str>::from(token);
        let refused = token.starts_with(BAD).then_some(TokenError::Refused);
        Box::pin(async move { refused.map_or(Ok(Identity { name, expires: None, revoked: None }), Err) })
    }
}

/// A certificate with names of every kind.
static CERTIFICATE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut params =
        CertificateParams::new(["*.example".into(), "edge.default".into(), "10.0.0.1".into()]).expect("names");
    params.subject_alt_names.push(SanType::URI("spiffe://a/b/c".try_into().expect("a name")));
    let key = KeyPair::generate().expect("a key");
    params.self_signed(&key).expect("a certificate").der().to_vec()
});

/// One input.
pub fn run(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _ = call(&runtime, &mut Unstructured::new(data));
}

fn call(runtime: &Runtime, source: &mut Unstructured<'_>) -> Result<()> {
    let fleets_of = || -> xds::FleetsOf { Arc::new(|_: &Identity| Fleets::Any) };
    let by_token = Gate::with_tokens(fleets_of(), Limits::default(), Arc::new(Verifier));
    let by_peer = Gate::new(fleets_of(), Limits::default());
    while !source.is_empty() {
        let certificate = source.arbitrary::<bool>()?.then(|| certificate(source)).transpose()?;
        let header = header(source)?;
        let said = admit(runtime.handle(), &by_token, certificate.as_deref(), header.as_deref());
        let token = header.as_deref().and_then(|header| header.get(7..)).unwrap_or_default();
        if let (Some(Ok(identity)), None) = (&said, &header) {
            assert!(certificate.is_some(), "who brings no token is whom a certificate names");
            let name = &identity.name;
            assert!(!name.is_empty() && (name.starts_with("spiffe://") || !name.contains('*')), "{name}");
        } else if let Some(Ok(identity)) = said {
            let scheme = header.as_deref().and_then(|header| header.get(..7));
            assert!(scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer ")));
            assert_eq!(identity.name.as_bytes(), token);
            assert!(!identity.name.starts_with(BAD) && identity.expires.is_none_or(|at| at > Instant::now()));
        }
        match admit(runtime.handle(), &by_peer, certificate.as_deref(), None) {
            Some(Ok(identity)) if certificate.is_some() => {
                let name = identity.name;
                assert!(!name.is_empty() && (name.starts_with("spiffe://") || !name.contains('*')), "{name}");
            }
            Some(Ok(identity)) => assert_eq!(&*identity.name, "loopback"),
            Some(Err(_)) | None => assert!(certificate.is_some(), "loopback is known"),
        }
    }
    Ok(())
}

/// A certificate in which something is changed, or anything.
fn certificate(source: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    if source.ratio(1, 8)? {
        let length = source.int_in_range(0..=2000)?;
        return Ok(source.bytes(length.min(source.len()))?.to_vec());
    }
    let mut bytes = CERTIFICATE.clone();
    for _ in 0..source.int_in_range(0..=8)? {
        let at = source.choose_index(bytes.len())?;
        match source.int_in_range(0..=3)? {
            0 => drop(bytes.remove(at)),
            1 => bytes.insert(at, source.arbitrary()?),
            2 => bytes.truncate(at + 1),
            _ => bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= source.arbitrary::<u8>().unwrap_or(1)),
        }
    }
    Ok(bytes)
}

fn header(source: &mut Unstructured<'_>) -> Result<Option<Vec<u8>>> {
    let scheme: &[u8] = source.choose(&[&b"Bearer "[..], b"bearer ", b"Bearer", b"Basic ", b"", b"Bearer  "])?;
    let token = match source.int_in_range(0..=3)? {
        0 => return Ok(None),
        1 => vec![b'a'; source.int_in_range(LONGEST_TOKEN - 1..=LONGEST_TOKEN + 1)?],
        _ => {
            let length = source.int_in_range(0..=64)?;
            source.bytes(length.min(source.len()))?.to_vec()
        }
    };
    Ok(Some([scheme, &token].concat()))
}

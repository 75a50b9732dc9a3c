//! Why a client's handshake failed, in words for people.

use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// The words for what the handshake ended with.
pub(in crate::server) fn words(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::NoCertificatesPresented) => "it shows no client certificate".to_owned(),
        Some(Error::InvalidCertificate(fault)) => certificate(fault),
        Some(Error::InvalidMessage(_)) => "it does not speak TLS as it should; is it cleartext?".to_owned(),
        Some(Error::AlertReceived(alert)) => format!("it refuses this server: {}", alerted(*alert)),
        _ => error.to_string(),
    }
}

fn certificate(fault: &CertificateError) -> String {
    let known = match fault {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "is not valid yet",
        CertificateError::UnknownIssuer => "is of none of the authorities in the clients' CA file",
        CertificateError::BadSignature => "is not signed by the authority that it names",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "is not for clients (extended key usage)"
        }
        CertificateError::BadEncoding => "cannot be read",
        CertificateError::Revoked => "is revoked",
        // the library has no name of its own for it
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "is that of an authority (CA:TRUE): have one issued by it"
        }
        other => return format!("its client certificate cannot be used: {other}"),
    };
    format!("its client certificate {known}")
}

fn alerted(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::UnknownCA => "it does not trust the authority of the server's certificate".to_owned(),
        AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
            "the server's certificate is not what it expects".to_owned()
        }
        AlertDescription::CertificateExpired => "the server's certificate has expired".to_owned(),
        other => format!("TLS alert {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_is_wrong_and_nothing_of_the_librarys_own_types() {
        let said = |error: Error| words(&io::Error::new(io::ErrorKind::InvalidData, error));
        assert_eq!(said(Error::NoCertificatesPresented), "it shows no client certificate");
        let expired = Error::InvalidCertificate(CertificateError::Expired);
        assert_eq!(said(expired), "its client certificate has expired");
        let unknown = Error::AlertReceived(AlertDescription::UnknownCA);
        assert_eq!(
            said(unknown),
            "it refuses this server: it does not trust the authority of the server's certificate"
        );
        assert_eq!(words(&io::Error::other("the client went")), "the client went");
    }
}

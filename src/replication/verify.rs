//! What is verified of the server's certificate, as libpq does it.
//!
//! rustls's own verifier is stricter than libpq in three ways that meet real Postgres servers: it takes no name from
//! the subject, it does not take a certificate that is itself among the roots (which is what a self-made one is), and
//! it cannot read certificates of X.509 version 1. The first two are handled as libpq handles them; a version 1
//! certificate is taken where nothing is verified, and refused otherwise.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256, Sha384, Sha512};
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::oid::db::rfc4519::CN;
use x509_cert::der::oid::db::rfc5280::ID_CE_SUBJECT_ALT_NAME;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// How much is verified.
#[derive(Debug, Clone)]
pub(super) enum Trust {
    /// Nothing but that the server has the certificate's key.
    Anyone,
    /// The chain ends at one of these.
    Chain(Roots),
    /// And the certificate names the host.
    ChainAndName(Roots),
}

/// The certificates that are trusted, and the same as bytes, to recognise one that is shown.
#[derive(Debug, Clone)]
pub(super) struct Roots {
    pub store: Arc<RootCertStore>,
    pub certificates: Arc<Vec<CertificateDer<'static>>>,
}

/// Verifies by [`Trust`].
#[derive(Debug)]
pub(super) struct Verifier {
    pub trust: Trust,
    pub algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    fn verify_chain(
        &self,
        roots: &Roots,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        if roots.certificates.iter().any(|root| root == certificate) {
            return verify_validity(certificate, now);
        }
        let parsed = ParsedCertificate::try_from(certificate)?;
        verify_server_cert_signed_by_trust_anchor(&parsed, &roots.store, intermediates, now, self.algorithms.all)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.trust {
            Trust::Anyone => {}
            Trust::Chain(roots) => self.verify_chain(roots, end_entity, intermediates, now)?,
            Trust::ChainAndName(roots) => {
                self.verify_chain(roots, end_entity, intermediates, now)?;
                verify_name(end_entity, server_name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match verify_tls12_signature(message, cert, dss, &self.algorithms) {
            Err(Error::InvalidCertificate(_)) if matches!(self.trust, Trust::Anyone) => {
                verify_with_key(&self.algorithms, message, cert, dss)
            }
            verified => verified,
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match verify_tls13_signature(message, cert, dss, &self.algorithms) {
            Err(Error::InvalidCertificate(_)) if matches!(self.trust, Trust::Anyone) => {
                verify_with_key(&self.algorithms, message, cert, dss)
            }
            verified => verified,
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn bad_encoding<T>(_: T) -> Error {
    Error::InvalidCertificate(CertificateError::BadEncoding)
}

/// The handshake's signature by the key of a certificate that rustls cannot read.
fn verify_with_key(
    algorithms: &WebPkiSupportedAlgorithms,
    message: &[u8],
    certificate: &CertificateDer<'_>,
    dss: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let certificate = x509_cert::Certificate::from_der(certificate).map_err(bad_encoding)?;
    let key = &certificate.tbs_certificate.subject_public_key_info;
    // rustls's identifiers are the contents of the sequence, without its header of two bytes.
    let identifier = key.algorithm.to_der().map_err(bad_encoding)?;
    let candidates = algorithms
        .mapping
        .iter()
        .find(|(scheme, _)| *scheme == dss.scheme)
        .map(|(_, algorithms)| *algorithms);
    let verified = candidates.unwrap_or_default().iter().any(|algorithm| {
        identifier.get(2..) == Some(algorithm.public_key_alg_id().as_ref())
            && algorithm
                .verify_signature(key.subject_public_key.raw_bytes(), message, dss.signature())
                .is_ok()
    });
    if verified {
        Ok(HandshakeSignatureValid::assertion())
    } else {
        Err(Error::InvalidCertificate(CertificateError::BadSignature))
    }
}

fn verify_validity(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let certificate = x509_cert::Certificate::from_der(certificate).map_err(bad_encoding)?;
    let validity = &certificate.tbs_certificate.validity;
    let now = now.as_secs();
    if now < validity.not_before.to_unix_duration().as_secs() {
        Err(Error::InvalidCertificate(CertificateError::NotValidYet))
    } else if now > validity.not_after.to_unix_duration().as_secs() {
        Err(Error::InvalidCertificate(CertificateError::Expired))
    } else {
        Ok(())
    }
}

/// Whether the certificate names the host: by its alternative names, and, if it has none of the host's kind, by its
/// subject's common name.
fn verify_name(certificate: &CertificateDer<'_>, host: &ServerName<'_>) -> Result<(), Error> {
    let error = match ParsedCertificate::try_from(certificate).and_then(|parsed| verify_server_name(&parsed, host)) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    let certificate = x509_cert::Certificate::from_der(certificate).map_err(bad_encoding)?;
    let names = alternative_names(&certificate);
    let of_its_kind = names.iter().any(|name| match host {
        ServerName::IpAddress(_) => matches!(name, GeneralName::IpAddress(_)),
        _ => matches!(name, GeneralName::DnsName(_)),
    });
    let host = host.to_str();
    let matches = !of_its_kind && common_name(&certificate).is_some_and(|name| name_matches(&name, &host));
    if matches { Ok(()) } else { Err(error) }
}

fn alternative_names(certificate: &x509_cert::Certificate) -> Vec<GeneralName> {
    let extensions = certificate.tbs_certificate.extensions.as_deref().unwrap_or_default();
    let extension = extensions
        .iter()
        .find(|extension| extension.extn_id == ID_CE_SUBJECT_ALT_NAME);
    let names = extension.and_then(|extension| SubjectAltName::from_der(extension.extn_value.as_bytes()).ok());
    names.map(|names| names.0).unwrap_or_default()
}

fn common_name(certificate: &x509_cert::Certificate) -> Option<String> {
    let mut attributes = certificate
        .tbs_certificate
        .subject
        .0
        .iter()
        .flat_map(|set| set.0.iter());
    let name = attributes.rfind(|attribute| attribute.oid == CN)?;
    String::from_utf8(name.value.value().to_vec()).ok()
}

/// A star stands for one whole label, the first, of a name; never for a part of an address.
fn name_matches(pattern: &str, host: &str) -> bool {
    if pattern.eq_ignore_ascii_case(host) {
        return true;
    }
    if host.parse::<IpAddr>().is_ok() {
        return false;
    }
    match (pattern.strip_prefix("*."), host.split_once('.')) {
        (Some(suffix), Some((label, rest))) => {
            !label.is_empty() && suffix.contains('.') && suffix.eq_ignore_ascii_case(rest)
        }
        _ => false,
    }
}

/// The hash of the server's certificate for channel binding `tls-server-end-point` (RFC 5929, section 4.1): by the hash
/// of its signature's algorithm, and SHA-256 in place of MD5 and SHA-1. None for algorithms that name no such hash.
pub(super) fn end_point_hash(certificate: &[u8]) -> Option<Vec<u8>> {
    let parsed = x509_cert::Certificate::from_der(certificate).ok()?;
    Some(match signature_hash(parsed.signature_algorithm.oid)? {
        Hash::Sha256 => Sha256::digest(certificate).to_vec(),
        Hash::Sha384 => Sha384::digest(certificate).to_vec(),
        Hash::Sha512 => Sha512::digest(certificate).to_vec(),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

fn signature_hash(algorithm: ObjectIdentifier) -> Option<Hash> {
    use x509_cert::der::oid::db::rfc5912 as known;
    let table = [
        (ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.4"), Hash::Sha256), // MD5 with RSA
        (known::SHA_1_WITH_RSA_ENCRYPTION, Hash::Sha256),
        (known::SHA_256_WITH_RSA_ENCRYPTION, Hash::Sha256),
        (known::SHA_384_WITH_RSA_ENCRYPTION, Hash::Sha384),
        (known::SHA_512_WITH_RSA_ENCRYPTION, Hash::Sha512),
        (ObjectIdentifier::new_unwrap("1.2.840.10045.4.1"), Hash::Sha256), // ECDSA with SHA-1
        (known::ECDSA_WITH_SHA_256, Hash::Sha256),
        (known::ECDSA_WITH_SHA_384, Hash::Sha384),
        (known::ECDSA_WITH_SHA_512, Hash::Sha512),
    ];
    table
        .into_iter()
        .find(|(oid, _)| *oid == algorithm)
        .map(|(_, hash)| hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_one_whole_first_label() {
        for (pattern, host, matches) in [
            ("db.example.com", "db.example.com", true),
            ("DB.example.com", "db.EXAMPLE.com", true),
            ("*.example.com", "db.example.com", true),
            ("*.example.com", "a.db.example.com", false),
            ("*.example.com", "example.com", false),
            ("*.com", "example.com", false),
            ("d*.example.com", "db.example.com", false),
            ("*", "localhost", false),
            ("*.0.0.1", "127.0.0.1", false),
            ("127.0.0.1", "127.0.0.1", true),
        ] {
            assert_eq!(name_matches(pattern, host), matches, "{pattern} {host}");
        }
    }

    #[test]
    fn the_end_point_hash_is_that_of_the_signature_with_sha_256_for_the_broken_ones() {
        for (oid, hash) in [
            ("1.2.840.113549.1.1.4", Some(Hash::Sha256)),
            ("1.2.840.113549.1.1.5", Some(Hash::Sha256)),
            ("1.2.840.113549.1.1.11", Some(Hash::Sha256)),
            ("1.2.840.113549.1.1.12", Some(Hash::Sha384)),
            ("1.2.840.113549.1.1.13", Some(Hash::Sha512)),
            ("1.2.840.10045.4.3.2", Some(Hash::Sha256)),
            ("1.2.840.10045.4.3.4", Some(Hash::Sha512)),
            ("1.3.101.112", None),           // Ed25519
            ("1.2.840.113549.1.1.10", None), // RSASSA-PSS: the hash is a parameter
        ] {
            assert_eq!(signature_hash(ObjectIdentifier::new_unwrap(oid)), hash, "{oid}");
        }
    }

    /// Self-made, for `*.db.example` by common name alone, valid for a hundred years.
    const BY_COMMON_NAME: &str = "-----BEGIN CERTIFICATE-----
MIIBqzCCAVGgAwIBAgIUTdX1uFFdrOfBubE07n8oOF0qQSAwCgYIKoZIzj0EAwIw
KjERMA8GA1UECgwId2FsZmVycnkxFTATBgNVBAMMDCouZGIuZXhhbXBsZTAgFw0y
NjExMzAwNzAxMDhaGA8yMTI2MTEwNjA3MDEwOFowKjERMA8GA1UECgwId2FsZmVy
cnkxFTATBgNVBAMMDCouZGIuZXhhbXBsZTBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABIQkGXISGUClztjdZvuhTv0lWVdRGe7SENuiAskvgxrfLnDMPWs4XWI4tq/R
UFKp4DzhuhPNPrupHTyzMch4cgejUzBRMB0GA1UdDgQWBBQd2Nltj3eazJrBxiTH
YJC3Pkhn8zAfBgNVHSMEGDAWgBQd2Nltj3eazJrBxiTHYJC3Pkhn8zAPBgNVHRMB
Af8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIQCwQ+i6gTSEguHRMBSzsL8eSt0E
IxQ/FOWTlNbbgy0aqAIgTbGgIf98gKE2/s9vJxLuBSF6XNwSI+COfH120YsqyVI=
-----END CERTIFICATE-----";

    /// Self-made, common name `db.example`, alternative names `other.example` and 127.0.0.1.
    const BY_ALTERNATIVE_NAME: &str = "-----BEGIN CERTIFICATE-----
MIIBoTCCAUegAwIBAgIUS4yx1PdhZxVWFNUt/g1v9c17fHkwCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKZGIuZXhhbXBsZTAgFw0yNjExMzAwNzAxMDhaGA8yMTI2MTEw
NjA3MDEwOFowFTETMBEGA1UEAwwKZGIuZXhhbXBsZTBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABOXi5iC6Zi9UcJKPQpH6aItjAtSOVTxrRaDdeT9YaJfqSOEN6BXT
Rykfwx6/kT91e/yE9/WQJwE/eRrZwrM6lN2jczBxMB0GA1UdDgQWBBQDRg0ZFHE/
WcAoe+GyFdfAlHUi8jAfBgNVHSMEGDAWgBQDRg0ZFHE/WcAoe+GyFdfAlHUi8jAP
BgNVHRMBAf8EBTADAQH/MB4GA1UdEQQXMBWCDW90aGVyLmV4YW1wbGWHBH8AAAEw
CgYIKoZIzj0EAwIDSAAwRQIhAMJd81Zu+WuiNsf3FyTESGDiOwDk3z1Bxy/+A06M
hfPKAiAVZw//Djpz0zrQ6xqliQ0crCetKFzOqoD9Ut+66XHiMw==
-----END CERTIFICATE-----";

    fn certificate(pem: &str) -> CertificateDer<'static> {
        use rustls::pki_types::pem::PemObject;
        CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
    }

    fn named(pem: &str, host: &str) -> bool {
        verify_name(&certificate(pem), &ServerName::try_from(host.to_owned()).unwrap()).is_ok()
    }

    #[test]
    fn the_common_name_counts_only_where_no_alternative_name_is_of_the_hosts_kind() {
        assert!(named(BY_COMMON_NAME, "one.db.example"));
        assert!(!named(BY_COMMON_NAME, "db.example"));
        assert!(!named(BY_COMMON_NAME, "127.0.0.1"));
        assert!(named(BY_ALTERNATIVE_NAME, "other.example"));
        assert!(named(BY_ALTERNATIVE_NAME, "127.0.0.1"));
        assert!(
            !named(BY_ALTERNATIVE_NAME, "db.example"),
            "it has alternative names, and this is none of them"
        );
        assert!(!named(BY_ALTERNATIVE_NAME, "127.0.0.2"));
    }

    #[test]
    fn a_self_made_certificate_is_trusted_as_its_own_root_and_no_other_is() {
        let verifier = |root: &str| Verifier {
            trust: Trust::Chain(Roots {
                store: Arc::new(RootCertStore::empty()),
                certificates: Arc::new(vec![certificate(root)]),
            }),
            algorithms: rustls::crypto::ring::default_provider().signature_verification_algorithms,
        };
        let host = ServerName::try_from("one.db.example").unwrap();
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(2_000_000_000));
        let shown = certificate(BY_COMMON_NAME);
        let verify = |verifier: Verifier, now| verifier.verify_server_cert(&shown, &[], &host, &[], now);
        assert!(verify(verifier(BY_COMMON_NAME), now).is_ok());
        assert!(verify(verifier(BY_ALTERNATIVE_NAME), now).is_err());
        let long_ago = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_000_000_000));
        let error = verify(verifier(BY_COMMON_NAME), long_ago).unwrap_err();
        assert_eq!(error, Error::InvalidCertificate(CertificateError::NotValidYet));
    }

    #[test]
    fn bytes_that_are_no_certificate_bind_no_channel() {
        assert_eq!(end_point_hash(b""), None);
        assert_eq!(end_point_hash(&[0x30, 0x82, 0xFF, 0xFF]), None);
    }
}

//! TLS by rustls with libpq's `sslmode`s (manual, section "SSL Support" of libpq, table "SSL Mode Descriptions").
//!
//! The cryptographic provider is named explicitly; none is installed for the whole process.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::error::ConnectError;
use super::settings::{PostgresSettings, RootCert, SslMode};
use super::verify::{Roots, Trust, Verifier};

/// What a TLS connection is made with.
///
/// # Errors
///
/// If the mode needs root certificates and there are none, or a file cannot be read.
pub(super) fn connector(settings: &PostgresSettings) -> Result<TlsConnector, ConnectError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let verifier = Verifier {
        trust: trust(settings)?,
        algorithms,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(format!("TLS cannot be set up: {error}"), None))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let config = match (&settings.sslcert, &settings.sslkey) {
        (None, None) => config.with_no_client_auth(),
        (Some(certificate), Some(key)) => {
            let chain = certificates("sslcert", certificate)?;
            let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable("sslkey", key, &error))?;
            config.with_client_auth_cert(chain, private).map_err(|error| {
                refused(
                    format!("postgres.sslcert and postgres.sslkey cannot be used: {error}"),
                    Some("The key must be the certificate's own, PEM, and not encrypted."),
                )
            })?
        }
        _ => {
            return Err(refused(
                "postgres.sslcert and postgres.sslkey come together, and one is missing".to_owned(),
                Some("Give both, or neither."),
            ));
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn trust(settings: &PostgresSettings) -> Result<Trust, ConnectError> {
    let mode = settings.sslmode;
    let Some(source) = &settings.sslrootcert else {
        return match mode {
            SslMode::VerifyCa | SslMode::VerifyFull => Err(refused(
                format!("sslmode = {mode} has no root certificates to verify with"),
                Some("Set postgres.sslrootcert to a PEM file, or to \"system\"."),
            )),
            SslMode::Disable | SslMode::Allow | SslMode::Prefer | SslMode::Require => Ok(Trust::Anyone),
        };
    };
    match (source, mode) {
        (RootCert::System, SslMode::VerifyFull) => Ok(Trust::ChainAndName(roots(system()?, &"the system's store")?)),
        (RootCert::System, _) => Err(refused(
            format!("sslmode = {mode} is too weak for sslrootcert = \"system\": anybody can get such a certificate"),
            Some("Set postgres.sslmode = \"verify-full\"."),
        )),
        (RootCert::File(_), SslMode::Disable | SslMode::Allow | SslMode::Prefer) => Ok(Trust::Anyone),
        (RootCert::File(path), SslMode::Require | SslMode::VerifyCa) => Ok(Trust::Chain(roots(
            certificates("sslrootcert", path)?,
            &path.display(),
        )?)),
        (RootCert::File(path), SslMode::VerifyFull) => Ok(Trust::ChainAndName(roots(
            certificates("sslrootcert", path)?,
            &path.display(),
        )?)),
    }
}

fn system() -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let reasons = found
            .errors
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ");
        return Err(refused(
            format!("the system has no root certificates {reasons}")
                .trim_end()
                .to_owned(),
            Some("Install the system's CA certificates, or set postgres.sslrootcert to a PEM file."),
        ));
    }
    Ok(found.certs)
}

fn roots(certificates: Vec<CertificateDer<'static>>, source: &dyn Display) -> Result<Roots, ConnectError> {
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(certificates.iter().cloned());
    if added == 0 {
        return Err(refused(
            format!("no root certificate of {source} can be used"),
            Some("They must be X.509 version 3."),
        ));
    }
    Ok(Roots {
        store: Arc::new(store),
        certificates: Arc::new(certificates),
    })
}

fn certificates(key: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if certificates.is_empty() => Err(refused(
            format!("postgres.{key}: {} holds no certificate", path.display()),
            Some("It must be PEM, with BEGIN CERTIFICATE."),
        )),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(unreadable(key, path, &error)),
    }
}

fn unreadable(key: &str, path: &Path, error: &dyn Display) -> ConnectError {
    refused(
        format!("postgres.{key}: {} cannot be read: {error}", path.display()),
        Some("It must be a PEM file that walferry's user may read."),
    )
}

fn refused(message: String, hint: Option<&str>) -> ConnectError {
    ConnectError::Settings {
        message,
        hint: hint.map(str::to_owned),
    }
}

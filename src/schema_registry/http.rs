//! One request to one URL.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, Method, Url};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::retry::retry_after;
use super::{Auth, RegistryError, RegistrySettings};

const MEDIA_TYPE: &str = "application/vnd.schemaregistry.v1+json";
/// Registries answer in JSON too when asked in their own type only; a proxy in between may not.
const ACCEPTED: &str = "application/vnd.schemaregistry.v1+json, application/json;q=0.9";
/// No answer of the API comes near this; a longer one is not taken into memory.
const LONGEST_ANSWER: usize = 64 << 20;
/// An error's text is cut here: it may be a proxy's whole page.
const LONGEST_MESSAGE: usize = 2000;

/// A base URL without user and password, and what signs requests to it.
pub(super) struct Endpoint {
    url: Url,
    auth: Auth,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str())
    }
}

/// Method, path below the base URL, and body.
pub(super) struct Request {
    method: Method,
    segments: Vec<String>,
    query: Option<&'static str>,
    body: Option<serde_json::Value>,
}

impl Request {
    pub(super) fn get(segments: &[&str]) -> Self {
        Request {
            method: Method::GET,
            segments: segments.iter().map(|&s| s.to_owned()).collect(),
            query: None,
            body: None,
        }
    }

    /// A schema, to be registered or looked up.
    pub(super) fn post(segments: &[&str], schema: &str) -> Self {
        Request {
            method: Method::POST,
            // "schemaType" is left out: AVRO is the default, and older registries do not know the field.
            body: Some(serde_json::json!({ "schema": schema })),
            ..Request::get(segments)
        }
    }

    pub(super) fn put(segments: &[&str], body: serde_json::Value) -> Self {
        Request {
            method: Method::PUT,
            body: Some(body),
            ..Request::get(segments)
        }
    }

    pub(super) fn delete(segments: &[&str]) -> Self {
        Request {
            method: Method::DELETE,
            ..Request::get(segments)
        }
    }

    pub(super) fn with_query(self, query: &'static str) -> Self {
        Request {
            query: Some(query),
            ..self
        }
    }
}

#[derive(Deserialize)]
struct ApiError {
    error_code: Option<i64>,
    message: Option<String>,
}

#[derive(Debug)]
pub(super) struct Http {
    client: Client,
    endpoints: Vec<Endpoint>,
    timeout: Duration,
}

impl Http {
    pub(super) fn new(settings: RegistrySettings) -> Result<Self, RegistryError> {
        let endpoints = settings
            .urls
            .iter()
            .enumerate()
            .map(|(index, url)| {
                endpoint(url, &settings.auth).map_err(|reason| RegistryError::Url {
                    number: index + 1,
                    reason,
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        if endpoints.is_empty() {
            return Err(RegistryError::NoUrl);
        }
        let https = endpoints.iter().any(|endpoint| endpoint.url.scheme() == "https");
        let client = Client::builder()
            .tls_backend_preconfigured(tls(settings.ssl_ca.as_deref(), https)?)
            .timeout(settings.timeout)
            .user_agent(concat!("walferry/", env!("CARGO_PKG_VERSION")))
            // As with Postgres and Kafka: the connection goes where the URL says, whatever HTTP_PROXY is.
            .no_proxy()
            .build()
            .map_err(|error| RegistryError::Client(error.without_url().into()))?;
        Ok(Http {
            client,
            endpoints,
            timeout: settings.timeout,
        })
    }

    pub(super) fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Sends, and reads the answer as JSON.
    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        endpoint: &Endpoint,
        request: &Request,
    ) -> Result<T, RegistryError> {
        let url = || endpoint.url.to_string();
        let failed = |error: reqwest::Error| match error.is_timeout() {
            true => RegistryError::Timeout {
                url: url(),
                timeout: self.timeout,
            },
            false => RegistryError::Unreachable {
                url: url(),
                source: error.without_url(),
            },
        };
        let mut target = endpoint.url.clone();
        if let Ok(mut path) = target.path_segments_mut() {
            path.pop_if_empty().extend(&request.segments);
        }
        target.set_query(request.query);
        let mut builder = self
            .client
            .request(request.method.clone(), target)
            .header(ACCEPT, ACCEPTED);
        builder = match &endpoint.auth {
            Auth::None => builder,
            Auth::Basic { username, password } => builder.basic_auth(username, Some(password)),
            Auth::Bearer(token) => builder.bearer_auth(token),
        };
        if let Some(body) = &request.body {
            builder = builder.header(CONTENT_TYPE, MEDIA_TYPE).body(body.to_string());
        }
        let mut response = builder.send().await.map_err(failed)?;
        let status = response.status();
        let asked = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|v| v.to_str().ok())
            .and_then(retry_after);

        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            body.extend_from_slice(&chunk);
            if body.len() > LONGEST_ANSWER {
                return Err(RegistryError::Malformed {
                    url: url(),
                    status: status.as_u16(),
                    source: format!("the answer is longer than {LONGEST_ANSWER} bytes").into(),
                });
            }
        }
        let status = status.as_u16();
        if let 200..300 = status {
            return serde_json::from_slice(&body).map_err(|error| RegistryError::Malformed {
                url: url(),
                status,
                source: error.into(),
            });
        }
        let api: Option<ApiError> = serde_json::from_slice(&body).ok();
        let (error_code, message) = match api {
            Some(ApiError {
                error_code,
                message: Some(message),
            }) => (error_code, message),
            Some(ApiError {
                error_code,
                message: None,
            }) => (error_code, "no message".to_owned()),
            None if body.is_empty() => (None, "no message".to_owned()),
            None => (None, String::from_utf8_lossy(&body).into_owned()),
        };
        let message = one_line(&message);
        Err(match status {
            408 | 429 | 500.. => RegistryError::Unavailable {
                url: url(),
                status,
                message,
                retry_after: asked,
            },
            401 | 403 => RegistryError::Credentials {
                url: url(),
                status,
                message,
            },
            _ => RegistryError::Refused {
                url: url(),
                status,
                error_code,
                message,
            },
        })
    }
}

fn one_line(message: &str) -> String {
    let mut line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((cut, _)) = line.char_indices().nth(LONGEST_MESSAGE) {
        line.truncate(cut);
        line.push('…');
    }
    line
}

fn endpoint(text: &str, auth: &Auth) -> Result<Endpoint, String> {
    let mut url = Url::parse(text.trim()).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") || url.cannot_be_a_base() {
        return Err("it must begin with http:// or https://".to_owned());
    }
    let auth = match (auth, url.username(), url.password()) {
        (Auth::None, "", None) => Auth::None,
        (Auth::None, username, password) => Auth::Basic {
            username: percent_decode(username),
            password: percent_decode(password.unwrap_or_default()),
        },
        (auth, ..) => auth.clone(),
    };
    // Neither fails: the URL has a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    Ok(Endpoint { url, auth })
}

/// RFC 3986, section 2.1. A sign that does not begin an escape stands for itself.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escape = tail
            .get(..2)
            .filter(|_| first == b'%')
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match escape.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn tls(ssl_ca: Option<&Path>, needed: bool) -> Result<ClientConfig, RegistryError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = ssl_ca {
        let unreadable = |source| RegistryError::Certificates {
            path: path.to_owned(),
            source,
        };
        let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string().into()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| unreadable(error.to_string().into()))?;
            roots.add(certificate).map_err(|error| unreadable(error.into()))?;
        }
        if roots.is_empty() {
            return Err(unreadable("it holds no certificate".into()));
        }
    } else if needed {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(RegistryError::NoSystemCertificates);
        }
    }
    let config = ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(|error| RegistryError::Client(error.into()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema_registry::OnIncompatible;

    #[test]
    fn credentials_in_a_url_sign_the_request_and_are_shown_nowhere() {
        let endpoint = endpoint("https://me:p%40ss%3A@registry.example:8081/api/", &Auth::None).unwrap();
        assert_eq!(format!("{endpoint:?}"), "https://registry.example:8081/api/");
        let Auth::Basic { username, password } = endpoint.auth else {
            panic!("no credentials")
        };
        assert_eq!((username.as_str(), password.as_str()), ("me", "p@ss:"));
    }

    #[test]
    fn a_url_that_is_not_http_is_refused_without_being_shown() {
        for (url, reason) in [
            ("registry:8081", "it must begin with http:// or https://"),
            ("ftp://me:secret@host", "it must begin with http:// or https://"),
            ("", "relative URL without a base"),
        ] {
            let settings = RegistrySettings {
                urls: vec!["http://ok".into(), url.into()],
                auth: Auth::None,
                ssl_ca: None,
                register: true,
                on_incompatible: OnIncompatible::Stop,
                timeout: Duration::from_secs(1),
            };
            let error = Http::new(settings).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("schema registry url number 2 is not usable: {reason}")
            );
        }
    }

    #[test]
    fn a_file_without_certificates_is_refused_by_its_name() {
        let error = tls(Some(Path::new("Cargo.toml")), true).unwrap_err();
        assert_eq!(error.to_string(), "certificates cannot be read from Cargo.toml");
        let error = tls(Some(Path::new("/nonexistent/ca.pem")), true).unwrap_err();
        assert_eq!(
            error.to_string(),
            "certificates cannot be read from /nonexistent/ca.pem"
        );
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        assert_eq!(one_line("a\n  b"), "a b");
        assert_eq!(one_line(&"ö".repeat(3000)).chars().count(), LONGEST_MESSAGE + 1);
    }
}

//! The schema registry, and plain HTTP.

use super::Env;
use serde_json::Value;
use std::time::Duration;

/// One request; the status and the body.
///
/// # Errors
/// When there is no answer.
pub async fn http(method: &str, url: &str, body: Option<&Value>) -> Result<(u16, String), reqwest::Error> {
    let mut request = client().request(method.parse().unwrap(), url);
    if let Some(body) = body {
        request = request
            .header("content-type", "application/vnd.schemaregistry.v1+json")
            .body(body.to_string());
    }
    let answer = request.send().await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

/// The headers and the body of what is there.
///
/// # Panics
/// When that is not so.
pub async fn http_with_headers(url: &str) -> (reqwest::header::HeaderMap, String) {
    let answer = client().get(url).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200, "{url}");
    (answer.headers().clone(), answer.text().await.unwrap())
}

pub(super) fn client() -> reqwest::Client {
    static PROVIDER: std::sync::Once = std::sync::Once::new();
    // The client wants one even where no TLS is spoken; another test may have set it.
    PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    reqwest::Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(10))
        .build()
        .unwrap()
}

/// The shared registry, by its Confluent API.
pub struct Registry {
    pub url: String,
}

impl Registry {
    pub fn shared() -> Self {
        Registry {
            url: Env::get().registry.clone(),
        }
    }

    pub fn port(&self) -> u16 {
        let authority = self.url.strip_prefix("http://").unwrap().split('/').next().unwrap();
        authority.rsplit(':').next().unwrap().parse().unwrap()
    }

    /// Of the API, below the authority.
    pub fn path(&self) -> String {
        let authority = self.url.strip_prefix("http://").unwrap();
        authority[authority.find('/').unwrap()..].to_owned()
    }

    /// The same registry, seen through a proxy.
    pub fn url_through(&self, port: u16) -> String {
        self.url.replace(&format!(":{}/", self.port()), &format!(":{port}/"))
    }

    pub async fn register(&self, subject: &str, schema: &Value) {
        let body = serde_json::json!({ "schema": schema.to_string() });
        let (status, answer) = http(
            "POST",
            &format!("{}/subjects/{subject}/versions", self.url),
            Some(&body),
        )
        .await
        .unwrap();
        assert_eq!(status, 200, "{answer}");
    }

    /// How many versions the subject has.
    pub async fn versions(&self, subject: &str) -> usize {
        let (status, answer) = http("GET", &format!("{}/subjects/{subject}/versions", self.url), None)
            .await
            .unwrap();
        if status == 404 {
            return 0;
        }
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str::<Vec<u64>>(&answer).unwrap().len()
    }

    /// `BACKWARD`, `FULL`, …: what a new version of the subject must be to the older ones.
    pub async fn compatibility(&self, subject: &str, level: &str) {
        let body = serde_json::json!({ "compatibility": level });
        let (status, answer) = http("PUT", &format!("{}/config/{subject}", self.url), Some(&body))
            .await
            .unwrap();
        assert_eq!(status, 200, "{answer}");
    }

    /// The level that counts for the subject.
    pub async fn level(&self, subject: &str) -> String {
        let url = format!("{}/config/{subject}?defaultToGlobal=true", self.url);
        let (status, answer) = http("GET", &url, None).await.unwrap();
        assert_eq!(status, 200, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["compatibilityLevel"].as_str().unwrap().to_owned()
    }

    /// A version's schema (`1`, `latest`).
    pub async fn schema(&self, subject: &str, version: &str) -> Value {
        let url = format!("{}/subjects/{subject}/versions/{version}", self.url);
        let (status, answer) = http("GET", &url, None).await.unwrap();
        assert_eq!(status, 200, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        serde_json::from_str(answer["schema"].as_str().unwrap()).unwrap()
    }

    /// Whether the registry itself would take this schema after the latest of the subject.
    pub async fn would_take(&self, subject: &str, schema: &Value) -> bool {
        let url = format!("{}/compatibility/subjects/{subject}/versions/latest", self.url);
        let body = serde_json::json!({ "schema": schema.to_string() });
        let (status, answer) = http("POST", &url, Some(&body)).await.unwrap();
        assert_eq!(status, 200, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["is_compatible"].as_bool().unwrap()
    }
}

//! Which properties of librdkafka hold secrets.

/// Whether the value of a property is never shown.
pub fn is_secret_property(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let file = key.ends_with("_file");
    let named = ["password", "secret", "token", "credential", "passphrase"]
        .iter()
        .any(|word| key.contains(word))
        && !key.ends_with(".url")
        && !key.ends_with(".ms");
    !file && (named || key.ends_with(".pem") || matches!(key.as_str(), "sasl.jaas.config" | "sasl.oauthbearer.config"))
}

#[cfg(test)]
mod tests {
    use super::is_secret_property;

    #[test]
    fn passwords_keys_and_tokens_are_secret_and_their_files_are_not() {
        for key in [
            "sasl.password",
            "ssl.key.password",
            "ssl.keystore.password",
            "ssl.key.pem",
            "ssl.certificate.pem",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.config",
            "SASL.Password",
        ] {
            assert!(is_secret_property(key), "{key}");
        }
        for key in [
            "sasl.username",
            "sasl.password_file",
            "ssl.key.location",
            "sasl.oauthbearer.token.endpoint.url",
        ] {
            assert!(!is_secret_property(key), "{key}");
        }
    }
}

//! The URL of a schema registry, and the credentials that may stand in it.

use super::secret::Secret;

/// A URL without its credentials, and those.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RegistryUrl {
    /// Without a slash at its end.
    pub(super) base: String,
    pub(super) credentials: Option<(String, Option<Secret>)>,
}

/// Takes a URL apart. Nothing is said of the text itself: it may hold a password.
pub(super) fn parse(text: &str) -> Result<RegistryUrl, &'static str> {
    let (scheme, rest) = text.split_once("://").ok_or("is not a URL")?;
    if !matches!(scheme, "http" | "https") {
        return Err("is neither http nor https");
    }
    let (authority, path) = rest
        .split_at_checked(rest.find('/').unwrap_or(rest.len()))
        .unwrap_or((rest, ""));
    let (userinfo, host) = match authority.rsplit_once('@') {
        Some((userinfo, host)) => (Some(userinfo), host),
        None => (None, authority),
    };
    if host.is_empty() || host.starts_with(':') {
        return Err("has no host");
    }
    if host.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("has a blank in its host");
    }
    if path.contains(['?', '#']) || host.contains(['?', '#']) {
        return Err("has a query or a fragment");
    }
    let credentials = match userinfo.map(|userinfo| userinfo.split_once(':').unwrap_or((userinfo, ""))) {
        Some((username, password)) => {
            let username = percent_decoded(username).ok_or("has a username that is not percent-encoded rightly")?;
            let password = percent_decoded(password).ok_or("has a password that is not percent-encoded rightly")?;
            Some((
                username,
                Some(Secret::new(password)).filter(|secret| !secret.expose().is_empty()),
            ))
        }
        None => None,
    };
    Ok(RegistryUrl {
        base: format!("{scheme}://{host}{}", path.trim_end_matches('/')),
        credentials,
    })
}

/// RFC 3986, section 2.1.
fn percent_decoded(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            let high = digit(bytes.next()?)?;
            let low = digit(bytes.next()?)?;
            decoded.push(high << 4 | low);
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_taken_out() {
        let url = parse("https://key:se%3Acret@registry:8081/api/").unwrap();
        assert_eq!(url.base, "https://registry:8081/api");
        assert_eq!(url.credentials, Some(("key".to_owned(), Some(Secret::new("se:cret")))));
        assert_eq!(parse("http://registry").unwrap().credentials, None);
    }

    #[test]
    fn what_is_no_base_url_is_refused() {
        for text in [
            "registry:8081",
            "ftp://registry",
            "http://",
            "http://u:p@",
            "http://a b",
            "http://a/?x",
            "http://%zz@a",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

//! `/`: a page for people, in one file. It asks `/status` and `/status/history`, and loads nothing else.

use std::sync::LazyLock;

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::IntoResponse;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

const PAGE: &str = include_str!("../page/index.html");

/// Its own style and script run, by their hashes, and nothing else; texts reach the document as texts alone (Trusted Types).
static POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        hash(inner("<script>", "</script>")),
        hash(inner("<style>", "</style>")),
    )
});

pub(super) async fn show() -> impl IntoResponse {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY.as_str()),
    ];
    (headers, PAGE)
}

/// What stands in the page between two tags.
fn inner(open: &str, close: &str) -> &'static str {
    let rest = PAGE.split_once(open).map_or("", |(_, rest)| rest);
    rest.split_once(close).map_or("", |(inner, _)| inner)
}

/// A hash-source (W3C, Content Security Policy Level 3, section 2.3.1).
fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{exchange, start};
    use super::*;

    #[tokio::test]
    async fn the_page_may_run_its_own_script_and_style_and_nothing_else() {
        let (server, _, _) = start().await;
        let (head, body) = exchange(&server, "GET", "/", "", "").await;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("content-type: text/html; charset=utf-8"), "{head}");
        let policy = head
            .lines()
            .find_map(|line| line.strip_prefix("content-security-policy: "))
            .unwrap();
        let directives: Vec<&str> = policy.split("; ").collect();
        let (script, style) = (inner("<script>", "</script>"), inner("<style>", "</style>"));
        assert!(script.contains("status/history") && style.contains("prefers-color-scheme"));
        assert_eq!(
            directives,
            [
                "default-src 'none'",
                &format!("script-src '{}'", hash(script)),
                &format!("style-src '{}'", hash(style)),
                "img-src data:",
                "connect-src 'self'",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
                "require-trusted-types-for 'script'",
                "trusted-types 'none'",
            ]
        );
        assert_eq!(body, PAGE);
    }

    #[test]
    fn a_hash_is_that_of_the_specification() {
        // The specification's own example.
        assert_eq!(
            hash("alert('Hello, world.');"),
            "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng="
        );
    }

    #[tokio::test]
    async fn every_answer_is_taken_for_what_it_says_and_told_to_nobody() {
        let (server, _, _) = start().await;
        for path in [
            "/",
            "/status",
            "/status/history",
            "/snapshot",
            "/metrics",
            "/health/ready",
            "/nothing",
        ] {
            let (head, _) = exchange(&server, "GET", path, "", "").await;
            for header in [
                "x-content-type-options: nosniff",
                "referrer-policy: no-referrer",
                "cache-control: no-store",
            ] {
                assert!(head.lines().any(|line| line == header), "{path}: no {header} in {head}");
            }
            let alone = head.contains("content-security-policy: default-src 'none'; frame-ancestors 'none'\r\n");
            assert_eq!(alone, path != "/", "{path}: {head}");
        }
    }

    #[test]
    fn the_page_names_no_other_host() {
        assert!(!PAGE.contains("//www") && !PAGE.contains("http:") && !PAGE.contains("https:"));
        for attribute in ["href=\"", "src=\"", "action=\"", "url("] {
            for (_, rest) in PAGE
                .match_indices(attribute)
                .map(|(at, found)| PAGE.split_at(at + found.len()))
            {
                let target = rest.split(['"', ')']).next().unwrap();
                let own = target == "data:," || is_path(target);
                assert!(own, "{attribute}{target}");
            }
        }
    }

    /// Relative: behind a proxy the page may have a prefix.
    fn is_path(target: &str) -> bool {
        target.starts_with(|first: char| first.is_ascii_lowercase()) && !target.contains([':', ' '])
    }

    #[test]
    fn texts_stay_texts() {
        let forbidden = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "createContextualFragment",
            "DOMParser",
            "srcdoc",
            "eval(",
            "new Function",
            "javascript:",
            " style=\"",
        ];
        for word in forbidden {
            assert!(!PAGE.contains(word), "{word}");
        }
        // No handler in an attribute: the policy would not let it run.
        let handlers: Vec<&str> = PAGE
            .split_whitespace()
            .filter(|word| word.starts_with("on") && word.contains("=\""))
            .collect();
        assert_eq!(handlers, [""; 0]);
    }

    #[test]
    fn whoever_runs_no_script_is_told_where_the_figures_are() {
        let text = inner("<noscript class=\"panel\">", "</noscript>");
        assert!(
            text.contains("href=\"status\"") && text.contains("href=\"metrics\""),
            "{text}"
        );
    }
}

//! Schemas that break with their predecessors.

use super::*;

/// A schema of one column, as the registry answers it.
fn version(kind: &str) -> String {
    let schema = row(kind);
    serde_json::json!({ "subject": "s", "version": 1, "id": 1, "schema": schema }).to_string()
}

fn row(kind: &str) -> String {
    format!(r#"{{"type":"record","name":"V","fields":[{{"name":"price","type":{kind}}}]}}"#)
}

fn decimal(scale: u32) -> String {
    format!(r#"{{"type":"bytes","logicalType":"decimal","precision":12,"scale":{scale}}}"#)
}

/// A reply whose text is made by the test.
fn ok(body: String) -> Answer {
    Reply("200 OK", "", body.leak())
}

const NOT_REGISTERED: Answer = Reply(
    "404 Not Found",
    "",
    r#"{"error_code":40403,"message":"Schema not found"}"#,
);

async fn wider(server: &Server, on_incompatible: OnIncompatible) -> Result<SchemaId, RegistryError> {
    let registry = Registry::new(RegistrySettings {
        urls: vec![format!("http://{}", server.address)],
        auth: Auth::None,
        ssl_ca: None,
        register: true,
        on_incompatible,
        timeout: Duration::from_millis(500),
    });
    registry.unwrap().schema_id("s", &row(&decimal(4)), &mut |_| ()).await
}

#[tokio::test]
async fn a_change_that_consumers_would_misread_is_refused_though_the_registry_would_take_it() {
    for level in ["BACKWARD", "FORWARD", "FULL"] {
        let server = Server::start([
            ok(version(&decimal(2))),
            ok(format!(r#"{{"compatibilityLevel":"{level}"}}"#)),
            NOT_REGISTERED,
        ])
        .await;
        let error = wider(&server, OnIncompatible::Stop).await.unwrap_err();
        assert!(error.is_incompatible() && !error.is_transient());
        let (was, is) = match level {
            "FORWARD" => ("12,4", "12,2"),
            _ => ("12,2", "12,4"),
        };
        assert_eq!(
            error.to_string(),
            format!(
                "the schema for subject s changes what the same bytes mean, which the subject's compatibility level {level} \
                 forbids and the registry does not notice: field price: bytes (decimal {was}) would be read as bytes \
                 (decimal {is}), without an error"
            )
        );
        let hint = error.hint().unwrap();
        assert!(
            hint.contains("PUT /config/s") && hint.contains("schema_registry.on_incompatible"),
            "{hint}"
        );
        assert_eq!(
            server.requests(),
            [
                "GET /subjects/s/versions/latest",
                "GET /config/s?defaultToGlobal=true",
                "POST /subjects/s"
            ]
        );
    }
}

#[tokio::test]
async fn a_schema_that_was_let_in_before_is_taken_as_it_is() {
    let server = Server::start([
        ok(version(&decimal(2))),
        Reply("200 OK", "", BACKWARD),
        Reply("200 OK", "", r#"{"subject":"s","version":2,"id":5,"schema":"{}"}"#),
    ])
    .await;
    let found = wider(&server, OnIncompatible::Stop).await.unwrap();
    assert_eq!(found, SchemaId { id: 5, broke: None });
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_transitive_level_compares_with_every_version() {
    let other = r#"{"schema":"{\"type\":\"record\",\"name\":\"V\",\"fields\":[]}"}"#;
    let with_default = |scale: u32| format!(r#"["null",{}],"default":null"#, decimal(scale));
    let server = Server::start([
        Reply("200 OK", "", other),
        Reply("200 OK", "", r#"{"compatibilityLevel":"BACKWARD_TRANSITIVE"}"#),
        Reply("200 OK", "", "[1,2,3]"),
        ok(version(&with_default(4))),
        ok(version(&with_default(2))),
        NOT_REGISTERED,
    ])
    .await;
    let registry = server.registry();
    let error = registry
        .schema_id("s", &row(&with_default(4)), &mut |_| ())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("BACKWARD_TRANSITIVE"), "{error}");
    assert_eq!(
        server.requests()[2..],
        [
            "GET /subjects/s/versions",
            "GET /subjects/s/versions/2",
            "GET /subjects/s/versions/1",
            "POST /subjects/s"
        ]
    );
}

#[tokio::test]
async fn a_subject_that_promises_nothing_takes_anything_and_says_what_broke() {
    for (answer, level) in [
        (Reply("200 OK", "", r#"{"compatibilityLevel":"NONE"}"#), 0),
        // A registry that knows no parameter, and no level of the subject's own.
        (
            Reply(
                "404 Not Found",
                "",
                r#"{"error_code":40408,"message":"No level of its own"}"#,
            ),
            1,
        ),
    ] {
        let mut script = vec![ok(version(&decimal(2))), answer];
        script.extend((0..level).map(|_| Reply("200 OK", "", r#"{"compatibilityLevel":"NONE"}"#)));
        script.push(Reply("200 OK", "", r#"{"id":5}"#));
        let server = Server::start(script).await;
        let found = wider(&server, OnIncompatible::Stop).await.unwrap();
        assert_eq!(found.id, 5);
        let broke = found.broke.unwrap();
        assert!(broke.level.is_none());
        assert_eq!(broke.conflicts.len(), 1);
        assert_eq!(server.requests().len(), 3 + level);
    }
}

#[tokio::test]
async fn told_to_register_what_would_be_misread_it_does_so_and_says_what_broke() {
    let server = Server::start([
        ok(version(&decimal(2))),
        Reply("200 OK", "", BACKWARD),
        NOT_REGISTERED,
        Reply("200 OK", "", r#"{"id":5}"#),
    ])
    .await;
    let found = wider(&server, OnIncompatible::Register).await.unwrap();
    assert_eq!(found.id, 5);
    let broke = found.broke.unwrap();
    assert_eq!(
        (broke.level.to_string().as_str(), broke.conflicts.len()),
        ("BACKWARD", 1)
    );
    assert_eq!(
        server.requests()[3],
        "POST /subjects/s/versions",
        "the level stays as it is"
    );
}

const REFUSED: Answer = Reply("409 Conflict", "", r#"{"error_code":409,"message":"incompatible"}"#);

#[tokio::test]
async fn told_to_register_what_is_refused_it_relaxes_the_level_and_restores_what_was_there() {
    // The subject's own level; none of its own; the same in Apicurio's words.
    let none = r#"{"error_code":40408,"message":"No level of its own"}"#;
    for (own, restored) in [
        (Reply("200 OK", "", BACKWARD), "PUT /config/s"),
        (Reply("404 Not Found", "", none), "DELETE /config/s"),
        (
            Reply("200 OK", "", r#"{"compatibilityLevel":"NONE"}"#),
            "DELETE /config/s",
        ),
    ] {
        let server = Server::start([
            ok(version("\"int\"")),
            Reply("200 OK", "", BACKWARD),
            REFUSED,
            own,
            Reply("200 OK", "", r#"{"compatibility":"NONE"}"#),
            Reply("503 Service Unavailable", "", ""),
            Reply("200 OK", "", r#"{"id":5}"#),
            Reply("503 Service Unavailable", "", ""),
            Reply("200 OK", "", r#"{"compatibility":"BACKWARD"}"#),
        ])
        .await;
        let found = wider(&server, OnIncompatible::Register).await.unwrap();
        assert_eq!(found.id, 5);
        assert_eq!(found.broke.unwrap().level.to_string(), "BACKWARD");
        assert_eq!(
            server.requests()[3..],
            [
                "GET /config/s",
                "PUT /config/s",
                "POST /subjects/s/versions",
                "POST /subjects/s/versions",
                restored,
                restored
            ]
        );
        let seen = server.seen.lock().unwrap();
        assert_eq!(seen[4].2, r#"{"compatibility":"NONE"}"#);
        let expected = if restored.starts_with("PUT") {
            r#"{"compatibility":"BACKWARD"}"#
        } else {
            ""
        };
        assert_eq!(seen[8].2, expected);
    }
}

#[tokio::test]
async fn the_level_is_restored_though_nothing_could_be_registered() {
    let server = Server::start([
        ok(version("\"string\"")),
        Reply("200 OK", "", r#"{"compatibilityLevel":"FULL"}"#),
        REFUSED,
        Reply("200 OK", "", r#"{"compatibilityLevel":"FULL"}"#),
        Reply("200 OK", "", r#"{"compatibility":"NONE"}"#),
        Reply("422 Unprocessable Entity", "", r#"{"error_code":42201,"message":"no"}"#),
        Reply("200 OK", "", r#"{"compatibility":"FULL"}"#),
        ok(version("\"string\"")),
    ])
    .await;
    let registry = Registry::new(RegistrySettings {
        urls: vec![format!("http://{}", server.address)],
        auth: Auth::None,
        ssl_ca: None,
        register: true,
        on_incompatible: OnIncompatible::Register,
        timeout: Duration::from_millis(500),
    });
    let error = registry
        .unwrap()
        .schema_id("s", &row("\"int\""), &mut |_| ())
        .await
        .unwrap_err();
    assert!(matches!(error, RegistryError::Invalid { .. }), "{error}");
    assert_eq!(
        server.requests()[6],
        "PUT /config/s",
        "restored though nothing was registered"
    );
}

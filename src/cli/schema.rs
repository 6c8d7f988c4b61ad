//! `walferry schema`: the schemas that `run` would register, and what the registry says of them.

use serde::Serialize;

use super::{Exit, indent, logs, output};
use crate::config::Loaded;
use crate::config::glob::TablePattern;
use crate::pipeline::schemas::{self, SubjectSchema, TableSchemas};
use crate::pipeline::{PipelineError, chain};
use crate::schema_registry::Standing;

/// Prints the schemas on stdout.
pub(super) async fn schema(loaded: Loaded, tables: Vec<TablePattern>, json: bool) -> Exit {
    if let Err(exit) = logs::start(&loaded) {
        return exit;
    }
    let schemas = match schemas::schemas(&loaded.config, &tables).await {
        Ok(schemas) => schemas,
        Err(error) => return failed(&error),
    };
    if schemas.is_empty() {
        output::notice("walferry: no published table has such a name; without one, `walferry schema` prints all\n");
        return Exit::Failed;
    }
    let register = loaded.config.schema_registry.register;
    let text = if json {
        match output::json(&schemas.iter().map(Table::of).collect::<Vec<_>>()) {
            Ok(text) => text,
            Err(exit) => return exit,
        }
    } else {
        describe(&schemas, register)
    };
    let usable = subjects(&schemas).all(|schema| is_usable(schema, register));
    match output::data(&text) {
        Exit::Stopped if !usable => Exit::Failed,
        exit => exit,
    }
}

/// Says why a command of this kind cannot be carried out.
pub(super) fn failed(error: &PipelineError) -> Exit {
    let hint = error.hint().map_or_else(String::new, |hint| format!("\n{hint}"));
    output::notice(&format!("walferry: {}{hint}\n", error.chain()));
    Exit::Failed
}

fn subjects(schemas: &[TableSchemas]) -> impl Iterator<Item = &SubjectSchema> {
    schemas.iter().flat_map(|table| table.key.iter().chain([&table.value]))
}

/// Whether `run` could write records with it.
fn is_usable(schema: &SubjectSchema, register: bool) -> bool {
    match schema.standing {
        Ok(Standing::Registered { .. }) => true,
        Ok(Standing::New) => register,
        Ok(Standing::Differs { accepted, .. }) => register && accepted,
        Err(_) => false,
    }
}

fn describe(schemas: &[TableSchemas], register: bool) -> String {
    let mut text = String::new();
    for table in schemas {
        if !text.is_empty() {
            text.push('\n');
        }
        match &table.table {
            Some(name) => text.push_str(&format!("table {name}, topic {}\n", table.topic)),
            None => text.push_str(&format!("dead letters, topic {}\n", table.topic)),
        }
        match (&table.key, &table.table) {
            (Some(key), _) => describe_one("key", key, register, &mut text),
            (None, Some(_)) => text.push_str("\nkey: none\n"),
            (None, None) => text.push_str("\nkey: that of the row's table\n"),
        }
        describe_one("value", &table.value, register, &mut text);
    }
    text
}

fn describe_one(what: &str, schema: &SubjectSchema, register: bool, text: &mut String) {
    let (standing, lines) = stand(schema, register);
    text.push_str(&format!("\n{what}: subject {}: {standing}\n", schema.subject));
    for line in lines {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str(&indent::indent(&schema.schema));
    text.push('\n');
}

fn stand(schema: &SubjectSchema, register: bool) -> (String, &[String]) {
    let refusal = "schema_registry.register is false, so run would refuse to go on";
    match &schema.standing {
        Ok(Standing::Registered { id, version }) => (format!("registered, version {version}, id {id}"), &[]),
        Ok(Standing::New) if register => ("new, would be the first version".to_owned(), &[]),
        Ok(Standing::New) => (format!("not registered; {refusal}"), &[]),
        Ok(Standing::Differs {
            latest,
            difference,
            accepted,
        }) => {
            let verdict = match (register, accepted) {
                (true, true) => "it would be registered",
                (true, false) => "it would be refused as incompatible",
                (false, _) => refusal,
            };
            let than = if difference.is_empty() { ", in no field" } else { "" };
            (format!("differs from version {latest}{than}; {verdict}"), difference)
        }
        Err(error) => (format!("the registry could not be asked: {}", chain(error)), &[]),
    }
}

#[derive(Serialize)]
struct Table<'a> {
    /// Null: dead letters.
    table: Option<&'a str>,
    topic: &'a str,
    key: Option<Subject<'a>>,
    value: Subject<'a>,
}

#[derive(Serialize)]
struct Subject<'a> {
    subject: &'a str,
    /// The text, as the registry would be given it.
    schema: &'a str,
    registry: Answer<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer<'a> {
    Standing(&'a Standing),
    Unknown { state: &'static str, error: String },
}

impl<'a> Table<'a> {
    fn of(schemas: &'a TableSchemas) -> Self {
        Table {
            table: schemas.table.as_deref(),
            topic: &schemas.topic,
            key: schemas.key.as_ref().map(Subject::of),
            value: Subject::of(&schemas.value),
        }
    }
}

impl<'a> Subject<'a> {
    fn of(schema: &'a SubjectSchema) -> Self {
        Subject {
            subject: &schema.subject,
            schema: &schema.schema,
            registry: match &schema.standing {
                Ok(standing) => Answer::Standing(standing),
                Err(error) => Answer::Unknown {
                    state: "unknown",
                    error: chain(error),
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(subject: &str, standing: Standing) -> SubjectSchema {
        SubjectSchema {
            subject: subject.to_owned(),
            schema: r#"{"type":"record","name":"Key","fields":[]}"#.to_owned(),
            standing: Ok(standing),
        }
    }

    fn schemas() -> Vec<TableSchemas> {
        let differs = Standing::Differs {
            latest: 2,
            difference: vec!["field n: added, type int, without a default".to_owned()],
            accepted: false,
        };
        vec![TableSchemas {
            table: Some("public.t".to_owned()),
            topic: "shop.public.t".to_owned(),
            key: Some(subject("shop.public.t-key", Standing::Registered { id: 7, version: 1 })),
            value: subject("shop.public.t-value", differs),
        }]
    }

    #[test]
    fn each_schema_stands_with_what_the_registry_says() {
        assert_eq!(
            describe(&schemas(), true),
            "table public.t, topic shop.public.t\n\
             \n\
             key: subject shop.public.t-key: registered, version 1, id 7\n\
             { \"type\": \"record\", \"name\": \"Key\", \"fields\": [] }\n\
             \n\
             value: subject shop.public.t-value: differs from version 2; it would be refused as incompatible\n\
             \u{20} field n: added, type int, without a default\n\
             { \"type\": \"record\", \"name\": \"Key\", \"fields\": [] }\n"
        );
    }

    #[test]
    fn dead_letters_have_the_keys_of_their_tables() {
        let letters = TableSchemas {
            table: None,
            topic: "shop.dead-letter".to_owned(),
            key: None,
            value: subject("shop.dead-letter-value", Standing::New),
        };
        assert_eq!(
            describe(&[letters], true),
            "dead letters, topic shop.dead-letter\n\
             \n\
             key: that of the row's table\n\
             \n\
             value: subject shop.dead-letter-value: new, would be the first version\n\
             { \"type\": \"record\", \"name\": \"Key\", \"fields\": [] }\n"
        );
    }

    #[test]
    fn machines_get_the_text_of_each_schema_and_the_answer() {
        let json = serde_json::to_value(schemas().iter().map(Table::of).collect::<Vec<_>>()).unwrap();
        let schema = r#"{"type":"record","name":"Key","fields":[]}"#;
        assert_eq!(
            json,
            serde_json::json!([{
                "table": "public.t", "topic": "shop.public.t",
                "key": { "subject": "shop.public.t-key", "schema": schema,
                         "registry": { "state": "registered", "id": 7, "version": 1 } },
                "value": { "subject": "shop.public.t-value", "schema": schema,
                           "registry": { "state": "differs", "latest": 2, "accepted": false,
                                         "difference": ["field n: added, type int, without a default"] } },
            }])
        );
    }

    #[test]
    fn only_what_run_could_use_is_well() {
        let usable =
            |standing: Standing| [true, false].map(|register| is_usable(&subject("s", standing.clone()), register));
        let differs = |accepted| Standing::Differs {
            latest: 1,
            difference: vec![],
            accepted,
        };
        assert_eq!(usable(Standing::Registered { id: 1, version: 1 }), [true, true]);
        assert_eq!(usable(Standing::New), [true, false]);
        assert_eq!(usable(differs(true)), [true, false]);
        assert_eq!(usable(differs(false)), [false, false]);
    }
}

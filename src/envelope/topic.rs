//! The topic of a table.
//!
//! Kafka allows `[a-zA-Z0-9._-]`, at most 249 of them, and neither `.` nor `..`. In the names of schema and table every
//! other character is escaped ([`escape`](super::escape)), and the dot too: between them stands a dot of the template,
//! so `"a.b"."c"` and `"a"."b.c"` have topics of their own.

use std::fmt;
use std::str::FromStr;

use super::escape::escape_into;

/// The longest name that Kafka takes.
pub const MAX_TOPIC_LENGTH: usize = 249;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Name,
    Schema,
    Table,
}

/// `{name}.{schema}.{table}` or the like, checked: `{schema}` and `{table}` stand in it once each with a dot in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicTemplate {
    text: String,
    parts: Vec<Part>,
}

/// Why a text is not a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopicTemplateError {
    /// Something in braces that is not known, or a brace without its other.
    #[error("{0:?} is not a placeholder; there are {{name}}, {{schema}} and {{table}}")]
    UnknownPlaceholder(String),
    /// A character that Kafka forbids.
    #[error("{0:?} may not stand in a topic's name; letters, digits, '.', '_' and '-' may")]
    ForbiddenCharacter(char),
    /// `{schema}` or `{table}` is absent, or there twice.
    #[error("{{{0}}} must stand in it exactly once, or two tables could share a topic")]
    NotOnce(&'static str),
    /// `{schema}` and `{table}` touch, or what lies between them may be part of a name.
    #[error("a '.' must stand between {{schema}} and {{table}}, or two tables could share a topic")]
    NoDotBetween,
    /// `{schema}` or `{table}`, in the name of a topic that all tables share.
    #[error("{{{0}}} may not stand in it: it is one topic for all tables")]
    NotOfATable(&'static str),
}

/// What a text is made of.
fn parts(text: &str) -> Result<Vec<Part>, TopicTemplateError> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (literal, tail) = rest.find(['{', '}']).map_or((rest, ""), |at| rest.split_at(at));
        if let Some(forbidden) = literal.chars().find(|character| !kafka_allows(*character)) {
            return Err(TopicTemplateError::ForbiddenCharacter(forbidden));
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal.to_owned()));
        }
        if tail.is_empty() {
            break;
        }
        let end = tail.find('}').map_or(tail.len(), |at| at.saturating_add(1));
        let (placeholder, after) = tail.split_at(end);
        parts.push(match placeholder {
            "{name}" => Part::Name,
            "{schema}" => Part::Schema,
            "{table}" => Part::Table,
            other => return Err(TopicTemplateError::UnknownPlaceholder(other.to_owned())),
        });
        rest = after;
    }
    Ok(parts)
}

impl FromStr for TopicTemplate {
    type Err = TopicTemplateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = parts(text)?;
        let only = |wanted: Part, name| {
            let mut places = parts
                .iter()
                .enumerate()
                .filter(|(_, part)| **part == wanted)
                .map(|(at, _)| at);
            match (places.next(), places.next()) {
                (Some(at), None) => Ok(at),
                _ => Err(TopicTemplateError::NotOnce(name)),
            }
        };
        let (schema, table) = (only(Part::Schema, "schema")?, only(Part::Table, "table")?);
        let between = parts.get(schema.min(table)..schema.max(table)).unwrap_or_default();
        if !between
            .iter()
            .any(|part| matches!(part, Part::Literal(literal) if literal.contains('.')))
        {
            return Err(TopicTemplateError::NoDotBetween);
        }
        Ok(TopicTemplate {
            text: text.to_owned(),
            parts,
        })
    }
}

impl fmt::Display for TopicTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn kafka_allows(character: char) -> bool {
    matches!(character, 'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' | '-')
}

/// The topic of a table. Whether Kafka takes a name of this length, [`check_topic`] says.
pub fn topic_name(template: &TopicTemplate, pipeline: &str, schema: &str, table: &str) -> String {
    let mut topic = String::new();
    for part in &template.parts {
        match part {
            Part::Literal(literal) => topic.push_str(literal),
            Part::Name => topic.push_str(&topic_prefix(pipeline)),
            Part::Schema => escape_into(
                schema,
                |character, _| kafka_allows(character) && character != '.',
                &mut topic,
            ),
            Part::Table => escape_into(
                table,
                |character, _| kafka_allows(character) && character != '.',
                &mut topic,
            ),
        }
    }
    topic
}

/// The pipeline's name where it stands in a topic; its dots stay.
fn topic_prefix(pipeline: &str) -> String {
    let mut prefix = String::new();
    escape_into(pipeline, |character, _| kafka_allows(character), &mut prefix);
    prefix
}

/// The topic of logical messages: `<pipeline>.message`.
pub fn message_topic(pipeline: &str) -> String {
    topic_prefix(pipeline) + ".message"
}

/// The one topic that `{name}.dead-letter` or the like names. Whether Kafka takes a name of this length, [`check_topic`] says.
///
/// # Errors
///
/// A text that is no template, or names a table.
pub fn pipeline_topic(template: &str, pipeline: &str) -> Result<String, TopicTemplateError> {
    let mut topic = String::new();
    for part in parts(template)? {
        match part {
            Part::Literal(literal) => topic.push_str(&literal),
            Part::Name => topic.push_str(&topic_prefix(pipeline)),
            Part::Schema => return Err(TopicTemplateError::NotOfATable("schema")),
            Part::Table => return Err(TopicTemplateError::NotOfATable("table")),
        }
    }
    Ok(topic)
}

/// Why Kafka takes no topic of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    /// Longer than Kafka allows.
    #[error("the topic name {topic:?} has {} characters, Kafka takes at most 249: shorten kafka.topic or the table's name", .topic.len())]
    TooLong {
        /// The name.
        topic: String,
    },
    /// `.`, `..`, nothing at all, or characters that Kafka forbids.
    #[error("Kafka takes no topic of the name {topic:?}")]
    Forbidden {
        /// The name.
        topic: String,
    },
}

/// Checks a topic's name by Kafka's rules.
pub fn check_topic(topic: &str) -> Result<(), TopicError> {
    if matches!(topic, "" | "." | "..") || !topic.chars().all(kafka_allows) {
        Err(TopicError::Forbidden {
            topic: topic.to_owned(),
        })
    } else if topic.len() > MAX_TOPIC_LENGTH {
        Err(TopicError::TooLong {
            topic: topic.to_owned(),
        })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::escape::tests::unescape;
    use proptest::prelude::*;

    fn topic(schema: &str, table: &str) -> String {
        topic_name(&"{name}.{schema}.{table}".parse().unwrap(), "shop", schema, table)
    }

    #[test]
    fn names_that_kafka_takes_stay_as_they_are() {
        assert_eq!(topic("public", "orders"), "shop.public.orders");
        assert_eq!(topic("public", "Order-Items_2"), "shop.public.Order-Items_2");
        assert_eq!(topic("public", "_u_user"), "shop.public._u_user");
    }

    #[test]
    fn other_characters_are_escaped() {
        assert_eq!(topic("public", "größe"), "shop.public.gr_u00F6_u00DFe");
        assert_eq!(topic("public", "a b"), "shop.public.a_u0020b");
        assert_eq!(topic("public", "🦀"), "shop.public._uD83E_uDD80");
        assert_eq!(topic("public", "a_u0020b"), "shop.public.a_u005Fu0020b");
    }

    #[test]
    fn a_dot_in_a_name_does_not_move_the_border_between_schema_and_table() {
        assert_eq!(topic("a.b", "c"), "shop.a_u002Eb.c");
        assert_eq!(topic("a", "b.c"), "shop.a.b_u002Ec");
    }

    #[test]
    fn the_pipelines_own_dots_stay() {
        let template = "{name}.{schema}.{table}".parse().unwrap();
        assert_eq!(topic_name(&template, "eu.shop", "public", "t"), "eu.shop.public.t");
        assert_eq!(message_topic("eu.shop"), "eu.shop.message");
    }

    #[test]
    fn a_template_by_which_tables_could_share_a_topic_is_refused() {
        use TopicTemplateError::*;
        for (text, error) in [
            ("{name}.{table}", NotOnce("schema")),
            ("{name}.{schema}", NotOnce("table")),
            ("{schema}.{table}.{table}", NotOnce("table")),
            ("{schema}{table}", NoDotBetween),
            ("x.{schema}-{table}", NoDotBetween),
            ("{schema}{name}{table}", NoDotBetween),
            ("{schema}.{tabel}", UnknownPlaceholder("{tabel}".into())),
            ("{schema}.{table", UnknownPlaceholder("{table".into())),
            ("{schema}.{table}}", UnknownPlaceholder("}".into())),
            ("a b.{schema}.{table}", ForbiddenCharacter(' ')),
        ] {
            assert_eq!(text.parse::<TopicTemplate>(), Err(error), "{text}");
        }
        assert!("cdc-{schema}-x.{table}".parse::<TopicTemplate>().is_ok());
    }

    #[test]
    fn a_topic_of_the_pipeline_names_no_table() {
        use TopicTemplateError::*;
        assert_eq!(
            pipeline_topic("{name}.dead-letter", "eu.shop").unwrap(),
            "eu.shop.dead-letter"
        );
        assert_eq!(pipeline_topic("lost", "shop").unwrap(), "lost");
        for (text, error) in [
            ("{name}.{table}", NotOfATable("table")),
            ("{schema}", NotOfATable("schema")),
            ("{nam}", UnknownPlaceholder("{nam}".into())),
            ("dead letter", ForbiddenCharacter(' ')),
        ] {
            assert_eq!(pipeline_topic(text, "shop"), Err(error), "{text}");
        }
    }

    #[test]
    fn names_beyond_kafkas_limits_are_refused() {
        assert_eq!(check_topic(&"a".repeat(249)), Ok(()));
        assert!(matches!(check_topic(&"a".repeat(250)), Err(TopicError::TooLong { .. })));
        for topic in ["", ".", "..", "a b"] {
            assert!(
                matches!(check_topic(topic), Err(TopicError::Forbidden { .. })),
                "{topic}"
            );
        }
    }

    fn name() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-zA-Z0-9._-]{0,8}",
            "(_|u|_u|00|2E|D83D|\\.|-|ö|🦀){0,6}",
            "[^\u{0}]{0,6}",
        ]
    }

    proptest! {
        #[test]
        fn no_two_tables_share_a_topic(schema in name(), table in name()) {
            let topic = topic(&schema, &table);
            prop_assert!(topic.chars().all(kafka_allows));
            let (s, t) = topic.strip_prefix("shop.").unwrap().split_once('.').unwrap();
            prop_assert_eq!(unescape(s), schema);
            prop_assert_eq!(unescape(t), table);
        }
    }
}

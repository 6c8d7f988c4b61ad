//! The column rules of the configuration: which of them covers a column, and whether each fits what it covers.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::error::PipelineError;
use super::hidden::{Cover, Hidden};
use super::publish::PublishSettings;
use super::published::PublishedTable;
use super::relations;
use super::sql::Sql;
use crate::avro::{ColumnRule, CompileError};
use crate::config::glob::{ColumnPattern, PatternError};
use crate::config::{self, ColumnAction};
use crate::relation::{CatalogFacts, Relation};
use crate::row::{Rule, Salt};

/// What is wrong with a column rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Two rules say different things of one column, and neither is for it alone.
    #[error(
        "the rules {first:?} and {second:?} of avro.columns both cover column {column:?} of table {table}, and differ"
    )]
    Conflict {
        /// A pattern.
        first: Arc<str>,
        /// Another.
        second: Arc<str>,
        /// The column.
        column: String,
        /// `schema.table`
        table: String,
    },
    /// A rule without a column.
    #[error("the rule {pattern:?} of avro.columns covers no column of a published table")]
    Unmatched {
        /// The pattern.
        pattern: Arc<str>,
    },
    /// A column that a rule hid has another name now.
    #[error(
        "column {column:?} of table {table}, whose values the rule {pattern:?} of avro.columns hides, seems to be {now} now, which no rule covers"
    )]
    Escaped {
        /// The pattern.
        pattern: Arc<str>,
        /// `schema.table`, as it was.
        table: String,
        /// The column, as it was.
        column: String,
        /// `schema.table.column`, as it is.
        now: String,
    },
    /// A rule that makes no sense for a column.
    #[error("{source}: {}", std::error::Error::source(source).map_or_else(String::new, ToString::to_string))]
    Misfit {
        /// Which, where and why.
        source: CompileError,
    },
}

impl RuleError {
    /// What to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            RuleError::Conflict { .. } => Some(
                "Let one of them not cover the column, or give it a rule of its own by its whole name: that one wins.".to_owned(),
            ),
            RuleError::Unmatched { .. } => Some(
                "Correct the pattern. For a column that is no longer there (its rule must stay while the stream lags behind that), or \
                 is still to come, add required = false."
                    .to_owned(),
            ),
            RuleError::Escaped { now, .. } => Some(format!(
                "Give {now} a rule, such as that of the old name, which stays, with required = false; or {{ exclude = false }} if its \
                 values may be seen."
            )),
            RuleError::Misfit { source } => source.hint(),
        }
    }
}

/// All the rules there are.
#[derive(Debug, Default)]
pub(super) struct Rules {
    configured: Vec<Configured>,
    hidden: Hidden,
}

#[derive(Debug)]
struct Configured {
    text: Arc<str>,
    pattern: ColumnPattern,
    /// `None`: the column stays as it is.
    rule: Option<Rule>,
    required: bool,
}

impl Rules {
    /// The rules of the configuration; an error comes with its pattern.
    pub(super) fn new(rules: &[config::ColumnRule]) -> Result<Self, (String, PatternError)> {
        let configured = |rule: &config::ColumnRule| {
            let pattern = ColumnPattern::parse(&rule.pattern).map_err(|error| (rule.pattern.clone(), error))?;
            Ok(Configured {
                text: rule.pattern.as_str().into(),
                pattern,
                rule: compiled(&rule.action),
                required: rule.required,
            })
        };
        Ok(Rules {
            configured: rules.iter().map(configured).collect::<Result<_, _>>()?,
            hidden: Hidden::default(),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.configured.is_empty()
    }

    /// The rule of each of a relation's columns.
    pub(super) fn of(&self, relation: &Relation) -> Result<Vec<Option<ColumnRule>>, RuleError> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let rule_of = |column: &str| -> Result<Option<ColumnRule>, RuleError> {
            Ok(self.covering(relation, column)?.and_then(|index| {
                let configured = self.configured.get(index)?;
                Some(ColumnRule {
                    pattern: Arc::clone(&configured.text),
                    rule: configured.rule.clone()?,
                })
            }))
        };
        relation.columns.iter().map(|column| rule_of(&column.name)).collect()
    }

    /// Takes in a relation as the stream describes it now; an error if a rule hid values that would be seen from here on.
    pub(super) fn watch(&self, relation: &Relation) -> Result<(), RuleError> {
        if self.is_empty() {
            return Ok(());
        }
        let cover = |column: &str| -> Result<Cover, RuleError> {
            let covering = self.covering(relation, column)?;
            Ok(match covering.and_then(|index| self.configured.get(index)) {
                None => Cover::Uncovered,
                Some(Configured {
                    text, rule: Some(rule), ..
                }) if rule.hides() => Cover::Hidden(Arc::clone(text)),
                Some(_) => Cover::Shown,
            })
        };
        let covers: Vec<Cover> = relation
            .columns
            .iter()
            .map(|column| cover(&column.name))
            .collect::<Result<_, _>>()?;
        self.hidden
            .take_in(relation, covers)
            .map_err(|escaped| RuleError::Escaped {
                pattern: escaped.pattern,
                table: escaped.table,
                column: escaped.column,
                now: escaped.now,
            })
    }

    /// The rule that covers a column: the one for it alone, or else the only one, or one of several that say the same.
    fn covering(&self, relation: &Relation, column: &str) -> Result<Option<usize>, RuleError> {
        let covers = |exact: bool| {
            self.configured.iter().enumerate().filter(move |(_, configured)| {
                configured.pattern.is_exact() == exact
                    && configured.pattern.matches(&relation.schema, &relation.name, column)
            })
        };
        for exact in [true, false] {
            let mut found = covers(exact);
            let Some((index, first)) = found.next() else { continue };
            return match found.find(|(_, other)| other.rule != first.rule) {
                None => Ok(Some(index)),
                Some((_, second)) => Err(RuleError::Conflict {
                    first: Arc::clone(&first.text),
                    second: Arc::clone(&second.text),
                    column: column.to_owned(),
                    table: relation.full_name(),
                }),
            };
        }
        Ok(None)
    }

    /// The rules that cover some column of a relation, by their place.
    fn matching<'a>(&'a self, relation: &'a Relation) -> impl Iterator<Item = usize> + 'a {
        let covers = |pattern: &ColumnPattern| {
            let names = || relation.columns.iter().map(|column| column.name.as_str());
            names().any(|column| pattern.matches(&relation.schema, &relation.name, column))
        };
        let indexed = self.configured.iter().enumerate();
        indexed
            .filter(move |(_, configured)| covers(&configured.pattern))
            .map(|(index, _)| index)
    }

    /// Everything that is wrong with the rules for these relations.
    fn faults(&self, relations: &[Arc<Relation>], settings: &PublishSettings) -> Vec<RuleError> {
        let mut faults = Vec::new();
        let mut matched = BTreeSet::new();
        for relation in relations {
            matched.extend(self.matching(relation));
            match settings.encoder(relation, &CatalogFacts::default()).map(|_| ()) {
                Err(PipelineError::Rules(errors)) => faults.extend(errors),
                Err(PipelineError::Compile {
                    source: source @ CompileError::Rule { .. },
                    ..
                }) => faults.push(RuleError::Misfit { source }),
                // Whatever else is wrong with a table is for its first row to say.
                Ok(()) | Err(_) => {}
            }
        }
        let unmatched = self.configured.iter().enumerate();
        faults.extend(
            unmatched
                .filter(|(index, configured)| configured.required && !matched.contains(index))
                .map(|(_, configured)| RuleError::Unmatched {
                    pattern: Arc::clone(&configured.text),
                }),
        );
        faults
    }
}

fn compiled(action: &ColumnAction) -> Option<Rule> {
    // As many characters as a text can have, at most.
    let characters = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    Some(match action {
        ColumnAction::Keep => return None,
        ColumnAction::Exclude => Rule::Exclude,
        ColumnAction::Sha256 { salt } => Rule::Sha256(Salt::new(salt.expose().as_bytes())),
        ColumnAction::Fixed { with } => Rule::Fixed(with.as_str().into()),
        ColumnAction::Text { truncate } => Rule::Printed {
            truncate: truncate.map(characters),
        },
        ColumnAction::Truncate { characters: count } => Rule::Truncated {
            characters: characters(*count),
        },
    })
}

/// Checks the rules against the tables as they are now.
pub(super) async fn check(
    settings: &PublishSettings,
    sql: &Sql,
    tables: &[PublishedTable],
) -> Result<(), PipelineError> {
    if settings.rules.is_empty() {
        return Ok(());
    }
    let described = relations::describe(sql, tables).await?;
    let faults = settings.rules.faults(&described, settings);
    match faults.is_empty() {
        true => Ok(()),
        false => Err(PipelineError::Rules(faults)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_text;
    use crate::pgoutput::{ColumnDescription, RelationMessage};
    use crate::relation::{CatalogKeys, Registry, Update};
    use std::collections::BTreeMap;
    use std::path::Path;

    /// `users (id int4 primary key, email text, age int4, home text[])`.
    fn users() -> Arc<Relation> {
        let columns = [("id", 23), ("email", 25), ("age", 23), ("home", 1009)];
        let message = RelationMessage {
            xid: None,
            oid: 16_400,
            namespace: "public",
            name: "users",
            replica_identity: b'd',
            columns: columns
                .iter()
                .map(|(name, type_oid)| ColumnDescription {
                    flags: u8::from(*name == "id"),
                    name,
                    type_oid: *type_oid,
                    typmod: -1,
                })
                .collect(),
        };
        match Registry::default().describe(&message, &CatalogKeys::default()).unwrap() {
            Update::Changed(relation) | Update::Unchanged(relation) => relation,
        }
    }

    fn settings(rules: &str, format: &str) -> PublishSettings {
        let text = format!("name = \"shop\"\n[replication]\nformat = \"{format}\"\n[avro.columns]\n{rules}\n");
        let config = load_text(Path::new("walferry.toml"), &text, &BTreeMap::new())
            .unwrap()
            .config;
        super::super::settings::publish(&config).unwrap()
    }

    /// The pattern that each column stands under.
    fn patterns(rules: &str) -> Result<Vec<Option<String>>, RuleError> {
        let rules = settings(rules, "text").rules.of(&users())?;
        Ok(rules
            .iter()
            .map(|rule| rule.as_ref().map(|rule| rule.pattern.to_string()))
            .collect())
    }

    fn faults(rules: &str, format: &str) -> Vec<String> {
        let settings = settings(rules, format);
        let faults = settings.rules.faults(&[users()], &settings);
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_rule_for_one_column_wins_over_a_glob() {
        assert_eq!(
            patterns("'*.*.e*' = { exclude = true }\n'public.users.email' = { truncate = 3 }").unwrap(),
            [None, Some("public.users.email".to_owned()), None, None]
        );
        assert_eq!(
            patterns("'*.users.*e*' = { exclude = true }\n'public.users.age' = { exclude = false }").unwrap(),
            [
                None,
                Some("*.users.*e*".to_owned()),
                None,
                Some("*.users.*e*".to_owned())
            ]
        );
        assert_eq!(patterns("").unwrap(), []);
    }

    #[test]
    fn globs_that_say_different_things_of_a_column_are_a_conflict_that_names_both() {
        let error = patterns("'*.*.email' = { exclude = true }\n'public.*.e*' = { truncate = 3 }").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the rules \"*.*.email\" and \"public.*.e*\" of avro.columns both cover column \"email\" of table public.users, \
             and differ"
        );
        assert!(patterns("'*.*.email' = { exclude = true }\n'public.*.e*' = { exclude = true }").is_ok());
        let twice = "'public.users.email' = { exclude = true }\n'public.users.\"email\"' = { truncate = 1 }";
        assert!(matches!(patterns(twice), Err(RuleError::Conflict { .. })));
    }

    #[test]
    fn everything_that_does_not_fit_the_tables_is_told_at_once() {
        assert_eq!(
            faults(
                "'public.users.mail' = { exclude = true }\n'*.*.age' = { truncate = 3 }",
                "text"
            ),
            [
                "the rule \"*.*.age\" of avro.columns does not fit column \"age\" of table public.users, of type int4: \
                 only text can be truncated",
                "the rule \"public.users.mail\" of avro.columns covers no column of a published table",
            ]
        );
        assert_eq!(
            faults("'public.users.id' = { exclude = true }", "text"),
            [
                "the rule \"public.users.id\" of avro.columns does not fit column \"id\" of table public.users, of type int4: \
                 the column is part of the key, which cannot do without it"
            ]
        );
        assert_eq!(
            faults("'public.users.home' = { type = \"string\" }", "binary"),
            [
                "the rule \"public.users.home\" of avro.columns does not fit column \"home\" of table public.users, of type _text: \
                 the binary form of this type cannot be printed as Postgres's text"
            ]
        );
        for (rules, format) in [
            ("'public.users.home' = { type = \"string\" }", "text"),
            ("'public.users.home' = { exclude = true }", "binary"),
            ("'public.users.id' = { mask = \"sha256\", salt = \"x\" }", "binary"),
            ("'public.users.gone' = { exclude = true, required = false }", "text"),
        ] {
            assert_eq!(faults(rules, format), Vec::<String>::new(), "{rules}");
        }
    }

    #[test]
    fn no_salt_is_in_a_debug_output() {
        let settings = settings(
            "'public.users.email' = { mask = \"sha256\", salt = \"hunter2\" }",
            "text",
        );
        assert!(!format!("{settings:?}").contains("hunter2"));
        let hunter2 = format!("{:?}", b"hunter2");
        assert!(!format!("{settings:?}").contains(hunter2.trim_matches(['[', ']'])));
    }
}

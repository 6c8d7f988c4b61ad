//! Columns whose values a rule hides, watched for the day when they are called something else.
//!
//! The stream says no more of a renamed column or table than its new name, for which there may be no rule. A rename keeps a column's
//! place among the others, and new columns come last: so one that stands where a hidden column has gone is taken for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::relation::Relation;

/// What is known of a column's rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cover {
    /// No rule covers it.
    Uncovered,
    /// A rule covers it, and its values may be seen.
    Shown,
    /// The rule of this pattern hides its values.
    Hidden(Arc<str>),
}

/// A hidden column that no rule covers any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Escaped {
    pub(super) pattern: Arc<str>,
    /// `schema.table`, as it was.
    pub(super) table: String,
    /// As it was.
    pub(super) column: String,
    /// As it is.
    pub(super) now: String,
}

/// Relations with hidden columns, by oid, as they were last described to this process.
#[derive(Debug, Default)]
pub(super) struct Hidden(Mutex<HashMap<u32, Known>>);

#[derive(Debug)]
struct Known {
    table: String,
    columns: Vec<(String, Cover)>,
}

impl Hidden {
    /// Takes in a relation, with the cover of each of its columns; an error if a hidden column is not hidden any more.
    pub(super) fn take_in(&self, relation: &Relation, covers: Vec<Cover>) -> Result<(), Escaped> {
        let names = relation.columns.iter().map(|column| column.name.clone());
        let now = Known {
            table: relation.full_name(),
            columns: names.zip(covers).collect(),
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(escaped) = known.get(&relation.oid).and_then(|before| escaped(before, &now)) {
            return Err(escaped);
        }
        if now.columns.iter().any(|(_, cover)| matches!(cover, Cover::Hidden(_))) {
            known.insert(relation.oid, now);
        } else {
            known.remove(&relation.oid);
        }
        Ok(())
    }
}

fn has(known: &Known, name: &str) -> bool {
    known.columns.iter().any(|(column, _)| column == name)
}

fn escaped(before: &Known, now: &Known) -> Option<Escaped> {
    // How many columns that are in both stand before each.
    let places = |of: &Known, other: &Known| -> Vec<usize> {
        let stays = of.columns.iter().map(|(name, _)| usize::from(has(other, name)));
        stays
            .scan(0, |count: &mut usize, one| Some(std::mem::replace(count, *count + one)))
            .collect()
    };
    let (places_before, places_now) = (places(before, now), places(now, before));
    let hidden = before.columns.iter().zip(&places_before);
    hidden
        .filter_map(|((column, cover), place)| match cover {
            Cover::Hidden(pattern) => Some((column, pattern, place)),
            Cover::Uncovered | Cover::Shown => None,
        })
        .find_map(|(column, pattern, place)| {
            let stays = has(now, column);
            let (name, _) = now
                .columns
                .iter()
                .zip(&places_now)
                .filter(|((_, cover), _)| *cover == Cover::Uncovered)
                .map(|((name, _), place)| (name, place))
                .find(|(name, place_now)| match stays {
                    true => *name == column,
                    false => !has(before, name) && *place_now == place,
                })?;
            Some(Escaped {
                pattern: Arc::clone(pattern),
                table: before.table.clone(),
                column: column.clone(),
                now: format!("{}.{name}", now.table),
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relation::{Column, PgType, ReplicaIdentity, TypeKind};

    /// A table whose columns called `secret…` are hidden, `seen…` are shown, and others are not covered.
    fn relation(name: &str, columns: &[&str]) -> (Relation, Vec<Cover>) {
        let ty = Arc::new(PgType {
            oid: 25,
            schema: "pg_catalog".into(),
            name: "text".into(),
            kind: TypeKind::Base,
        });
        let cover = |name: &&str| match *name {
            name if name.starts_with("secret") => Cover::Hidden("*.*.secret*".into()),
            name if name.starts_with("seen") => Cover::Shown,
            _ => Cover::Uncovered,
        };
        let relation = Relation {
            oid: 16_400,
            version: 1,
            schema: "public".into(),
            name: name.into(),
            replica_identity: ReplicaIdentity::Default,
            columns: columns
                .iter()
                .map(|name| Column {
                    name: (*name).into(),
                    ty: Arc::clone(&ty),
                    typmod: -1,
                    identity: false,
                })
                .collect(),
            key: vec![],
        };
        (relation, columns.iter().map(cover).collect())
    }

    /// What a hidden column of the first description is in the second, if it is not hidden there.
    fn escapes(before: &[&str], now: &[&str]) -> Option<(String, String)> {
        let hidden = Hidden::default();
        let (relation_before, covers) = relation("t", before);
        hidden.take_in(&relation_before, covers).unwrap();
        let (relation_now, covers) = relation("t", now);
        let escaped = hidden.take_in(&relation_now, covers).err()?;
        assert_eq!(escaped.table, "public.t");
        Some((escaped.column, escaped.now))
    }

    fn one(column: &str, now: &str) -> Option<(String, String)> {
        Some((column.to_owned(), format!("public.t.{now}")))
    }

    #[test]
    fn a_new_name_in_the_place_of_a_hidden_column_is_taken_for_it() {
        assert_eq!(
            escapes(&["id", "secret", "n"], &["id", "mail", "n"]),
            one("secret", "mail")
        );
        assert_eq!(escapes(&["id", "secret"], &["id", "mail"]), one("secret", "mail"));
        assert_eq!(
            escapes(&["id", "secret", "n"], &["id", "mail", "n", "more"]),
            one("secret", "mail")
        );
        // Beside others that go.
        assert_eq!(
            escapes(&["a", "id", "secret", "n"], &["id", "mail", "n"]),
            one("secret", "mail")
        );
        assert_eq!(
            escapes(&["id", "secret1", "secret2", "n"], &["id", "x", "secret2", "n"]),
            one("secret1", "x")
        );
    }

    #[test]
    fn a_hidden_column_that_goes_and_others_that_come_are_no_matter() {
        assert_eq!(escapes(&["id", "secret", "n"], &["id", "n"]), None);
        assert_eq!(escapes(&["id", "secret", "n"], &["id", "n", "more"]), None);
        assert_eq!(escapes(&["id", "secret", "n"], &["id", "secret", "n", "more"]), None);
        assert_eq!(escapes(&["id", "secret", "n"], &["id", "secret", "m"]), None);
        assert_eq!(escapes(&["id", "n"], &["id", "m"]), None);
    }

    #[test]
    fn a_new_name_that_a_rule_covers_is_in_order() {
        assert_eq!(escapes(&["id", "secret", "n"], &["id", "secret_mail", "n"]), None);
        assert_eq!(escapes(&["id", "secret", "n"], &["id", "seen", "n"]), None);
    }

    #[test]
    fn a_column_of_a_renamed_table_that_no_rule_covers_there_is_told() {
        let hidden = Hidden::default();
        let (before, covers) = relation("t", &["id", "secret"]);
        hidden.take_in(&before, covers).unwrap();
        let (renamed, _) = relation("u", &["id", "secret"]);
        assert_eq!(
            hidden.take_in(&renamed, vec![Cover::Uncovered, Cover::Uncovered]),
            Err(Escaped {
                pattern: "*.*.secret*".into(),
                table: "public.t".into(),
                column: "secret".into(),
                now: "public.u.secret".into(),
            })
        );
        assert_eq!(hidden.take_in(&renamed, vec![Cover::Uncovered, Cover::Shown]), Ok(()));
        assert!(hidden.0.lock().unwrap().is_empty(), "nothing is left to be watched");
    }
}

//! The questions for one chunk.

use std::fmt::Write as _;

use super::RowFormat;
use crate::quote::{quote_identifier, quote_literal};

/// The end of the log, behind everything that is committed.
pub(super) const LOG_END: &str = "CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn()
    ELSE pg_catalog.pg_current_wal_insert_lsn() END::text";

/// A query of what a table looks like, as far as reading it goes: name, columns, key, replica identity, what the publication says of
/// it. Two texts that are equal stand for the same. Both tables are expressions: the one that has the rows, and the published one.
pub fn shape(relation: &str, table: &str) -> String {
    format!(
        "(SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ',
                c.oid, c.relnamespace, c.relname, c.relreplident,
                (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', a.attname, a.atttypid, a.atttypmod, a.attisdropped,
                    pg_catalog.to_jsonb(a) ->> 'attgenerated'), ',' ORDER BY a.attnum)
                 FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0),
                (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', i.indexrelid, i.indkey, i.indisprimary, i.indisreplident,
                    i.indisvalid), ',' ORDER BY i.indexrelid)
                 FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND (i.indisprimary OR i.indisreplident)),
                (SELECT pg_catalog.string_agg(r.xmin::text, ',' ORDER BY r.xmin::text) FROM pg_catalog.pg_publication_rel r
                 WHERE r.prrelid = c.oid)
            ), ';' ORDER BY c.oid)
         FROM pg_catalog.pg_class c WHERE c.oid IN ({relation}, {table}))"
    )
}

/// A column of the key that a table is read in the order of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyColumn {
    /// Its name.
    pub name: String,
    /// Its type as `format_type` prints it.
    pub type_name: String,
}

/// A chunk: which rows of which relation, and what of them.
#[derive(Debug, Clone)]
pub struct ChunkQuery<'a> {
    /// The relation, quoted and qualified. Of it alone is read: what inherits from it are tables of their own.
    pub relation: &'a str,
    /// The row's columns, plain names.
    pub columns: &'a [String],
    /// The key. Without one the whole relation is read, in any order.
    pub key: &'a [KeyColumn],
    /// The publication's row filter, SQL.
    pub row_filter: Option<&'a str>,
    /// The condition of whoever asked for these rows, SQL.
    pub asked: Option<&'a str>,
    /// Rows beyond this: the text of the key's columns, or of the first of them.
    pub after: Option<&'a [String]>,
    /// Rows up to and with this: likewise.
    pub before: Option<&'a [String]>,
    /// The row of this key.
    pub only: Option<&'a [String]>,
    /// At most so many.
    pub limit: Option<u64>,
    /// The form of the answer.
    pub format: RowFormat,
    /// Whether the key's columns come once more, as text, after the row's.
    pub key_as_text: bool,
}

impl ChunkQuery<'_> {
    /// The COPY that asks for it.
    ///
    /// The conditions are somebody's SQL: one that ends in a comment must not take with it what comes after.
    pub fn copy(&self) -> String {
        let columns = self.columns.iter().map(|name| quote_identifier(name));
        let texts = match self.key_as_text {
            true => self.key,
            false => &[],
        };
        // With the column's own name ORDER BY would not know which of the two is meant.
        let texts = texts
            .iter()
            .enumerate()
            .map(|(place, column)| format!("{}::text AS \"walferry key {place}\"", quote_identifier(&column.name)));
        let selected = columns.chain(texts).collect::<Vec<_>>().join(", ");

        let given = |sql: &str| format!("({sql}\n)");
        let conditions: Vec<String> = [
            self.row_filter.map(given),
            self.asked.map(given),
            self.after.and_then(|bound| self.compared(">", bound)),
            self.before.and_then(|bound| self.compared("<=", bound)),
            self.only.and_then(|key| self.compared("=", key)),
        ]
        .into_iter()
        .flatten()
        .collect();

        let mut sql = format!("COPY (SELECT {selected} FROM ONLY {}", self.relation);
        if !conditions.is_empty() {
            sql.push_str(" WHERE ");
            sql.push_str(&conditions.join(" AND "));
        }
        if !self.key.is_empty() {
            let order: Vec<String> = self.key.iter().map(|column| quote_identifier(&column.name)).collect();
            sql.push_str(" ORDER BY ");
            sql.push_str(&order.join(", "));
            if let Some(limit) = self.limit {
                // Into a string: it cannot fail.
                let _ = write!(sql, " LIMIT {limit}");
            }
        }
        sql.push_str(match self.format {
            RowFormat::Text => ") TO STDOUT",
            RowFormat::Binary => ") TO STDOUT (FORMAT binary)",
        });
        sql
    }

    /// The key's first columns, as many as the bound has, compared with it in the key's order.
    fn compared(&self, operator: &str, bound: &[String]) -> Option<String> {
        let pairs = || self.key.iter().zip(bound);
        let columns: Vec<String> = pairs().map(|(column, _)| quote_identifier(&column.name)).collect();
        let values: Vec<String> = pairs()
            .map(|(column, value)| format!("{}::{}", quote_literal(value), column.type_name))
            .collect();
        match (columns.as_slice(), values.as_slice()) {
            ([], _) | (_, []) => None,
            ([column], [value]) => Some(format!("{column} {operator} {value}")),
            _ => Some(format!("({}) {operator} ({})", columns.join(", "), values.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn key(columns: &[(&str, &str)]) -> Vec<KeyColumn> {
        columns
            .iter()
            .map(|(name, type_name)| KeyColumn {
                name: (*name).to_owned(),
                type_name: (*type_name).to_owned(),
            })
            .collect()
    }

    fn whole<'a>(columns: &'a [String], key: &'a [KeyColumn]) -> ChunkQuery<'a> {
        ChunkQuery {
            relation: "\"public\".\"t\"",
            columns,
            key,
            row_filter: None,
            asked: None,
            after: None,
            before: None,
            only: None,
            limit: None,
            format: RowFormat::Text,
            key_as_text: false,
        }
    }

    #[test]
    fn a_table_without_a_key_is_read_whole_and_in_any_order() {
        let columns = texts(&["a", "b"]);
        let mut query = whole(&columns, &[]);
        query.limit = Some(10);
        query.key_as_text = true;
        let bound = texts(&["1"]);
        query.after = Some(&bound);
        assert_eq!(
            query.copy(),
            "COPY (SELECT \"a\", \"b\" FROM ONLY \"public\".\"t\") TO STDOUT"
        );
    }

    #[test]
    fn a_table_without_columns_has_rows_all_the_same() {
        assert_eq!(
            whole(&[], &[]).copy(),
            "COPY (SELECT  FROM ONLY \"public\".\"t\") TO STDOUT"
        );
    }

    #[test]
    fn the_first_chunk_has_the_order_of_the_key_and_a_limit() {
        let columns = texts(&["v", "id"]);
        let key = key(&[("id", "bigint")]);
        let mut query = whole(&columns, &key);
        query.limit = Some(50_000);
        query.format = RowFormat::Binary;
        query.key_as_text = true;
        assert_eq!(
            query.copy(),
            "COPY (SELECT \"v\", \"id\", \"id\"::text AS \"walferry key 0\" FROM ONLY \"public\".\"t\" \
             ORDER BY \"id\" LIMIT 50000) TO STDOUT (FORMAT binary)"
        );
    }

    #[test]
    fn a_chunk_lies_between_its_bounds() {
        let columns = texts(&["id"]);
        let key = key(&[("id", "integer")]);
        let (after, before) = (texts(&["-5"]), texts(&["10"]));
        let mut query = whole(&columns, &key);
        query.after = Some(&after);
        query.before = Some(&before);
        assert_eq!(
            query.copy(),
            "COPY (SELECT \"id\" FROM ONLY \"public\".\"t\" \
             WHERE \"id\" > '-5'::integer AND \"id\" <= '10'::integer ORDER BY \"id\") TO STDOUT"
        );
    }

    #[test]
    fn a_key_of_several_columns_is_compared_as_a_row_and_a_shorter_bound_with_the_first_of_them() {
        let columns = texts(&["a"]);
        let key = key(&[("a", "text"), ("b", "timestamp(3) with time zone"), ("c", "\"char\"")]);
        let (after, before) = (texts(&["x", "2026-01-01 00:00:00+00", "y"]), texts(&["z"]));
        let mut query = whole(&columns, &key);
        query.after = Some(&after);
        query.before = Some(&before);
        query.limit = Some(7);
        assert_eq!(
            query.copy(),
            "COPY (SELECT \"a\" FROM ONLY \"public\".\"t\" \
             WHERE (\"a\", \"b\", \"c\") > ('x'::text, '2026-01-01 00:00:00+00'::timestamp(3) with time zone, \
             'y'::\"char\") AND \"a\" <= 'z'::text ORDER BY \"a\", \"b\", \"c\" LIMIT 7) TO STDOUT"
        );
        let prefix = texts(&["x", "2026-01-01 00:00:00+00"]);
        query.after = Some(&prefix);
        query.before = None;
        query.limit = None;
        assert_eq!(
            query.copy(),
            "COPY (SELECT \"a\" FROM ONLY \"public\".\"t\" \
             WHERE (\"a\", \"b\") > ('x'::text, '2026-01-01 00:00:00+00'::timestamp(3) with time zone) \
             ORDER BY \"a\", \"b\", \"c\") TO STDOUT"
        );
    }

    #[test]
    fn every_condition_stands_alone_even_if_it_ends_in_a_comment() {
        let columns = texts(&["id"]);
        let key = key(&[("id", "integer")]);
        let after = texts(&["5"]);
        let mut query = whole(&columns, &key);
        query.row_filter = Some("(price > 0) OR vip");
        query.asked = Some("region = 'eu' -- only those");
        query.after = Some(&after);
        assert_eq!(
            query.copy(),
            "COPY (SELECT \"id\" FROM ONLY \"public\".\"t\" WHERE ((price > 0) OR vip\n) \
             AND (region = 'eu' -- only those\n) AND \"id\" > '5'::integer ORDER BY \"id\") TO STDOUT"
        );
    }

    #[test]
    fn names_and_values_are_quoted_whatever_they_are() {
        let columns = texts(&["a\"; --", "SELECT"]);
        let key = key(&[("a\"; --", "text")]);
        let after = texts(&["\\'); DROP TABLE t; --"]);
        let mut query = whole(&columns, &key);
        query.after = Some(&after);
        query.key_as_text = true;
        assert_eq!(
            query.copy(),
            "COPY (SELECT \"a\"\"; --\", \"SELECT\", \"a\"\"; --\"::text AS \"walferry key 0\" FROM ONLY \"public\".\"t\" \
             WHERE \"a\"\"; --\" > E'\\\\''); DROP TABLE t; --'::text ORDER BY \"a\"\"; --\") TO STDOUT"
        );
    }

    #[test]
    fn a_bound_without_values_is_none() {
        let columns = texts(&["id"]);
        let key = key(&[("id", "integer")]);
        let mut query = whole(&columns, &key);
        query.after = Some(&[]);
        assert_eq!(
            query.copy(),
            "COPY (SELECT \"id\" FROM ONLY \"public\".\"t\" ORDER BY \"id\") TO STDOUT"
        );
    }
}

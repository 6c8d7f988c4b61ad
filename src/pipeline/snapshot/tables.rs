//! What must be known of a table before it is read.

use std::collections::HashMap;

use tokio_postgres::{Client, Error};

use crate::pipeline::published::{self, PublishedTable};
use crate::quote::qualified;
use crate::snapshot::{KeyColumn, shape};

/// A published table, as the list has it.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) oid: u32,
    pub(super) schema: String,
    pub(super) name: String,
    /// How many rows it has, as far as the catalog knows.
    pub(super) estimate: Option<u64>,
    /// Rows can be told apart: it has a primary key, or else an index that is its replica identity.
    pub(super) has_key: bool,
}

impl Listed {
    pub(super) fn full_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }
}

/// A table that has rows: the published one, or a partition of it.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) oid: u32,
    /// Quoted.
    pub(super) name: String,
    /// The table's look and the published one's.
    pub(super) shape: String,
    /// Keys that divide it into parts of about the same size; the first column alone.
    pub(super) bounds: Vec<String>,
}

/// How a table is read.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) published: PublishedTable,
    pub(super) columns: Vec<String>,
    pub(super) key: Vec<KeyColumn>,
    /// Where they stand among the columns.
    pub(super) key_places: Vec<usize>,
    /// Changes never leave a value out: none is long enough to be stored apart, or the old row comes with them.
    pub(super) is_whole: bool,
    pub(super) row_filter: Option<String>,
    pub(super) parts: Vec<Part>,
}

/// The index by which a table is read, and its columns: the primary key, or else the replica identity index. Its columns are NOT NULL, and
/// it is unique.
const KEY: &str = "SELECT k.names, k.types
    FROM pg_catalog.pg_index i
    CROSS JOIN LATERAL (
        SELECT array_agg(a.attname::text ORDER BY k.place) AS names,
               array_agg(pg_catalog.format_type(a.atttypid, a.atttypmod) ORDER BY k.place) AS types
        FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, place)
        JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
        WHERE k.place <= coalesce((to_jsonb(i) ->> 'indnkeyatts')::int, i.indnatts)
    ) k
    WHERE i.indrelid = c.oid AND i.indimmediate AND i.indisvalid AND i.indisunique AND (i.indisprimary OR i.indisreplident)
    ORDER BY i.indisprimary DESC LIMIT 1";

/// The tables of a publication.
pub(super) async fn list(client: &Client, publication: &str) -> Result<Vec<Listed>, Error> {
    // reltuples is -1 (before Postgres 14, 0) where nobody has counted. A partitioned table's is the sum of its partitions'.
    let query = format!(
        "SELECT c.oid, n.nspname::text, c.relname::text,
                EXISTS (SELECT FROM ({KEY}) k
                        WHERE coalesce(jsonb_typeof(to_jsonb(p) -> 'attnames'), 'null') = 'null' OR to_jsonb(p) -> 'attnames' ?& k.names),
                CASE WHEN c.relkind = 'p' THEN (
                    WITH RECURSIVE part (oid) AS (
                        SELECT c.oid UNION ALL
                        SELECT h.inhrelid FROM part JOIN pg_catalog.pg_inherits h ON h.inhparent = part.oid
                    )
                    SELECT sum(greatest(p.reltuples, 0)) FROM part JOIN pg_catalog.pg_class p ON p.oid = part.oid AND p.relkind = 'r'
                ) ELSE nullif(c.reltuples, -1) END::int8
         FROM pg_catalog.pg_publication_tables p
         JOIN pg_catalog.pg_namespace n ON n.nspname = p.schemaname
         JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
         WHERE p.pubname = $1::text::name ORDER BY 2, 3"
    );
    let rows = client.query(&query, &[&publication]).await?;
    rows.iter()
        .map(|row| {
            let estimate: Option<i64> = row.try_get(4)?;
            Ok(Listed {
                oid: row.try_get(0)?,
                schema: row.try_get(1)?,
                name: row.try_get(2)?,
                has_key: row.try_get(3)?,
                estimate: estimate
                    .and_then(|rows| u64::try_from(rows).ok())
                    .filter(|rows| *rows > 0),
            })
        })
        .collect()
}

/// What there is to know of one table; `None`: it is not published any more. `pieces`: into how many each part may be divided that has
/// more than `chunk_rows`.
pub(super) async fn plan(
    client: &Client,
    publication: &str,
    table: u32,
    pieces: usize,
    chunk_rows: u64,
) -> Result<Option<Plan>, Error> {
    let Some(published) = published::of_relations(client, publication, &[table]).await?.pop() else {
        return Ok(None);
    };
    // The view has row filters from Postgres 15 on.
    let query = format!(
        "SELECT k.names, k.types, to_jsonb(p) ->> 'rowfilter',
                c.relreplident = 'f' OR c.relkind = 'r' AND c.reltoastrelid = 0
         FROM pg_catalog.pg_publication_tables p
         JOIN pg_catalog.pg_namespace n ON n.nspname = p.schemaname
         JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
         LEFT JOIN LATERAL ({KEY}) k ON true
         WHERE p.pubname = $1::text::name AND c.oid = $2"
    );
    let Some(row) = client.query_opt(&query, &[&publication, &table]).await? else {
        return Ok(None);
    };
    let names: Option<Vec<String>> = row.try_get(0)?;
    let types: Option<Vec<String>> = row.try_get(1)?;
    let key = names.unwrap_or_default().into_iter().zip(types.unwrap_or_default());
    let key: Vec<KeyColumn> = key.map(|(name, type_name)| KeyColumn { name, type_name }).collect();
    let pieces = if key.is_empty() { 1 } else { pieces };
    let parts = parts(client, table, key.first(), pieces, chunk_rows).await?;
    let columns: Vec<String> = published.columns().map(str::to_owned).collect();
    let places = key.iter().map(|key| columns.iter().position(|name| *name == key.name));
    Ok(Some(Plan {
        key_places: places.collect::<Option<_>>().unwrap_or_default(),
        columns,
        row_filter: row.try_get(2)?,
        is_whole: row.try_get(3)?,
        published,
        key,
        parts,
    }))
}

/// The table, or the partitions that have its rows: those that write to the log, and foreign ones do not.
async fn parts(
    client: &Client,
    table: u32,
    first: Option<&KeyColumn>,
    pieces: usize,
    chunk_rows: u64,
) -> Result<Vec<Part>, Error> {
    let shape = shape("part.oid", "$1::oid");
    let query = format!(
        "WITH RECURSIVE part (oid) AS (
             SELECT $1::oid UNION ALL
             SELECT h.inhrelid FROM part
             JOIN pg_catalog.pg_class parent ON parent.oid = part.oid AND parent.relkind = 'p'
             JOIN pg_catalog.pg_inherits h ON h.inhparent = part.oid
         )
         SELECT c.oid, n.nspname::text, c.relname::text, {shape}, c.reltuples::int8,
                (SELECT s.histogram_bounds::text::text[] FROM pg_catalog.pg_stats s
                 WHERE s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = $2::text::name AND NOT s.inherited)
         FROM part
         JOIN pg_catalog.pg_class c ON c.oid = part.oid AND c.relkind = 'r' AND c.relpersistence = 'p'
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         ORDER BY 2, 3"
    );
    let first = first.map(|column| column.name.as_str());
    let rows = client.query(&query, &[&table, &first]).await?;
    rows.iter()
        .map(|row| {
            let (schema, name): (String, String) = (row.try_get(1)?, row.try_get(2)?);
            let estimate: i64 = row.try_get(4)?;
            let bounds: Option<Vec<String>> = row.try_get(5)?;
            let chunks = u64::try_from(estimate).unwrap_or_default() / chunk_rows.max(1);
            let pieces = pieces.min(usize::try_from(chunks).unwrap_or(pieces));
            Ok(Part {
                oid: row.try_get(0)?,
                name: qualified(&schema, &name),
                shape: row.try_get(3)?,
                bounds: divide(&bounds.unwrap_or_default(), pieces),
            })
        })
        .collect()
}

/// Those of the bounds, which lie in their order, that divide what is between them into so many pieces.
fn divide(bounds: &[String], pieces: usize) -> Vec<String> {
    let mut chosen: Vec<String> = (1..pieces)
        .filter_map(|piece| bounds.get(piece.saturating_mul(bounds.len()) / pieces))
        .cloned()
        .collect();
    chosen.dedup();
    chosen
}

/// Tables by oid.
pub(super) fn by_oid(listed: Vec<Listed>) -> HashMap<u32, Listed> {
    listed.into_iter().map(|table| (table.oid, table)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_chosen_evenly_and_none_twice() {
        let bounds: Vec<String> = (0..101).map(|number| number.to_string()).collect();
        assert_eq!(divide(&bounds, 4), ["25", "50", "75"]);
        assert_eq!(divide(&bounds, 1), Vec::<String>::new());
        assert_eq!(divide(&bounds, 0), Vec::<String>::new());
        assert_eq!(divide(&[], 4), Vec::<String>::new());
        assert_eq!(divide(&["7".to_owned()], 3), ["7"]);
    }
}

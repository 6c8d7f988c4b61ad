//! What pgoutput would say of the published tables now, from the catalog: the same columns, in the same order, with the same flags.
//!
//! The stream itself is never read by this: it may lag behind the catalog. It is for what is asked before anything streams.

use tokio_postgres::{Client, Error, Row};

use super::error::PipelineError;
use super::prepare::{self, Wanted};
use super::source::{self, Settings, Table};
use crate::pgoutput::{ColumnDescription, RelationMessage};

/// A table, as a Relation message would describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PublishedTable {
    pub(super) oid: u32,
    pub(super) schema: String,
    pub(super) name: String,
    replica_identity: u8,
    columns: Vec<PublishedColumn>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct PublishedColumn {
    name: String,
    type_oid: u32,
    typmod: i32,
    identity: bool,
}

impl PublishedTable {
    /// `schema.table`
    pub(super) fn full_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }

    /// The names of its columns, in their order.
    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    /// The message.
    pub(super) fn message(&self) -> RelationMessage<'_> {
        RelationMessage {
            xid: None,
            oid: self.oid,
            // As on the wire.
            namespace: if self.schema == "pg_catalog" { "" } else { &self.schema },
            name: &self.name,
            replica_identity: self.replica_identity,
            columns: self
                .columns
                .iter()
                .map(|column| ColumnDescription {
                    flags: u8::from(column.identity),
                    name: &column.name,
                    type_oid: column.type_oid,
                    typmod: column.typmod,
                })
                .collect(),
        }
    }
}

/// The tables that are published, or, where the publication is still to be made, those that it would have.
pub(super) async fn tables(
    client: &Client,
    wanted: &Wanted,
    found: &Settings,
) -> Result<Vec<PublishedTable>, PipelineError> {
    match source::publication(client, &wanted.publication).await? {
        Some(_) => Ok(of_publication(client, &wanted.publication).await?),
        None => {
            let tables = prepare::wanted_tables(client, wanted, &found.database, found.server_version).await?;
            Ok(of_tables(client, &tables).await?)
        }
    }
}

/// Which columns a publication publishes, the view says from Postgres 15 on; before, it is all of them. Generated ones are
/// published from 18 on alone, though the view of 15 counts them among the others.
const OF_PUBLICATION: &str = "SELECT c.oid, to_jsonb(p) -> 'attnames' AS listed
    FROM pg_catalog.pg_publication_tables p
    JOIN pg_catalog.pg_namespace n ON n.nspname = p.schemaname
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
    WHERE p.pubname = $1::text::name";

/// The tables of a publication, by name: under `publish_via_partition_root` the roots, else the partitions.
pub(super) async fn of_publication(client: &Client, publication: &str) -> Result<Vec<PublishedTable>, Error> {
    described(client.query(&query(OF_PUBLICATION), &[&publication]).await?)
}

/// Those of its tables that are among `relations`.
pub(super) async fn of_relations(
    client: &Client,
    publication: &str,
    relations: &[u32],
) -> Result<Vec<PublishedTable>, Error> {
    let query = query(&format!("{OF_PUBLICATION} AND c.oid = ANY ($2)"));
    described(client.query(&query, &[&publication, &relations]).await?)
}

/// The tables that a publication would have that is made for these tables and nothing said beside: their partitions in
/// the place of partitioned ones.
pub(super) async fn of_tables(client: &Client, tables: &[Table]) -> Result<Vec<PublishedTable>, Error> {
    let relations = "WITH RECURSIVE member (oid) AS (
            SELECT unnest($1::oid[])
            UNION
            SELECT i.inhrelid FROM member m
            JOIN pg_catalog.pg_class p ON p.oid = m.oid AND p.relkind = 'p'
            JOIN pg_catalog.pg_inherits i ON i.inhparent = m.oid
        )
        SELECT c.oid, NULL::jsonb AS listed FROM member m
        JOIN pg_catalog.pg_class c ON c.oid = m.oid AND c.relkind = 'r' AND c.relpersistence = 'p'";
    let tables: Vec<u32> = tables.iter().map(|table| table.oid).collect();
    described(client.query(&query(relations), &[&tables]).await?)
}

/// An identity index that Postgres would not use for the replica identity (deferrable, not valid) does not count, nor do columns that
/// it only INCLUDEs (`RelationGetIndexList`, `RelationGetIdentityKeyBitmap` in `utils/cache/relcache.c`).
fn query(relations: &str) -> String {
    format!(
        "WITH relation AS ({relations})
         SELECT c.oid, n.nspname::text, c.relname::text, c.relreplident, a.names, a.types, a.typmods, a.flags
         FROM relation r
         JOIN pg_catalog.pg_class c ON c.oid = r.oid
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
         CROSS JOIN LATERAL (
             SELECT coalesce(array_agg(a.attname::text ORDER BY a.attnum), '{{}}') AS names,
                    coalesce(array_agg(a.atttypid ORDER BY a.attnum), '{{}}') AS types,
                    coalesce(array_agg(a.atttypmod ORDER BY a.attnum), '{{}}') AS typmods,
                    coalesce(array_agg(c.relreplident = 'f' OR EXISTS (
                        SELECT FROM pg_catalog.pg_index i
                        CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, place)
                        WHERE i.indrelid = c.oid AND i.indimmediate AND i.indisvalid
                          AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END
                          AND k.attnum = a.attnum
                          AND k.place <= coalesce((to_jsonb(i) ->> 'indnkeyatts')::int, i.indnatts)
                    ) ORDER BY a.attnum), '{{}}') AS flags
             FROM pg_catalog.pg_attribute a
             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
               AND CASE coalesce(to_jsonb(a) ->> 'attgenerated', '')
                       WHEN '' THEN coalesce(r.listed ? a.attname::text, true)
                       ELSE current_setting('server_version_num')::int >= 180000 AND coalesce(r.listed ? a.attname::text, false)
                   END
         ) a
         ORDER BY 2, 3"
    )
}

fn described(rows: Vec<Row>) -> Result<Vec<PublishedTable>, Error> {
    rows.iter()
        .map(|row| {
            let replica_identity: i8 = row.try_get(3)?;
            let names: Vec<String> = row.try_get(4)?;
            let types: Vec<u32> = row.try_get(5)?;
            let typmods: Vec<i32> = row.try_get(6)?;
            let flags: Vec<bool> = row.try_get(7)?;
            let columns = names.into_iter().zip(types).zip(typmods).zip(flags);
            Ok(PublishedTable {
                oid: row.try_get(0)?,
                schema: row.try_get(1)?,
                name: row.try_get(2)?,
                replica_identity: replica_identity.cast_unsigned(),
                columns: columns
                    .map(|(((name, type_oid), typmod), identity)| PublishedColumn {
                        name,
                        type_oid,
                        typmod,
                        identity,
                    })
                    .collect(),
            })
        })
        .collect()
}

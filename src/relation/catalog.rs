//! The two questions that only the catalog can answer: what a type oid is, and how a key is ordered.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::{Client, Error};

use super::{CatalogKeys, PgType, TypeKind};

struct Row {
    oid: u32,
    schema: String,
    name: String,
    class: char,
    element: u32,
    base: u32,
    typmod: i32,
}

/// What these oids are, with all that they are made of. An oid that the catalog does not know is left out.
///
/// # Errors
///
/// What the server or the connection says.
pub async fn types(client: &Client, oids: &[u32]) -> Result<Vec<Arc<PgType>>, Error> {
    // Elements and bases are wanted as well, in one round trip.
    let query = "WITH RECURSIVE wanted AS (
            SELECT t.oid, t.typelem, t.typbasetype, t.is_array FROM (
                SELECT oid, typelem, typbasetype, typlen = -1 AND typcategory = 'A' AS is_array
                FROM pg_catalog.pg_type) t
            WHERE t.oid = ANY ($1)
            UNION
            SELECT t.oid, t.typelem, t.typbasetype, t.typlen = -1 AND t.typcategory = 'A'
            FROM pg_catalog.pg_type t
            JOIN wanted w ON t.oid = w.typbasetype OR (w.is_array AND t.oid = w.typelem)
        )
        SELECT t.oid, n.nspname::text, t.typname::text, t.typtype, t.typcategory,
               t.typelem, t.typbasetype, t.typtypmod
        FROM pg_catalog.pg_type t
        JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
        WHERE t.oid IN (SELECT oid FROM wanted)";
    let oids: Vec<u32> = oids.to_vec();
    let rows: HashMap<u32, Row> = client
        .query(query, &[&oids])
        .await?
        .iter()
        .map(|row| {
            let category: i8 = row.try_get(4)?;
            let class: i8 = row.try_get(3)?;
            let is_array = category.cast_unsigned() == b'A';
            let described = Row {
                oid: row.try_get(0)?,
                schema: row.try_get(1)?,
                name: row.try_get(2)?,
                class: char::from(class.cast_unsigned()),
                element: if is_array { row.try_get(5)? } else { 0 },
                base: row.try_get(6)?,
                typmod: row.try_get(7)?,
            };
            Ok((described.oid, described))
        })
        .collect::<Result<_, Error>>()?;
    Ok(oids.iter().filter_map(|oid| assemble(*oid, &rows)).collect())
}

fn assemble(oid: u32, rows: &HashMap<u32, Row>) -> Option<Arc<PgType>> {
    // Types are well founded (a domain's base and an array's element exist before it), so this ends.
    let row = rows.get(&oid)?;
    let kind = match row.class {
        'd' => TypeKind::Domain {
            base: assemble(row.base, rows)?,
            typmod: row.typmod,
        },
        'e' => TypeKind::Enum,
        'c' => TypeKind::Composite,
        'r' | 'm' => TypeKind::Range,
        'b' if row.element != 0 => TypeKind::Array {
            element: assemble(row.element, rows)?,
        },
        'b' => TypeKind::Base,
        _ => TypeKind::Other,
    };
    Some(Arc::new(PgType {
        oid,
        schema: row.schema.clone(),
        name: row.name.clone(),
        kind,
    }))
}

/// The primary key and the replica identity index of a table, as they are now.
///
/// # Errors
///
/// What the server or the connection says.
pub async fn keys(client: &Client, relation: u32) -> Result<CatalogKeys, Error> {
    // indnkeyatts (without INCLUDE columns) is there from Postgres 11 on.
    let query = "SELECT i.indisprimary, i.indisreplident,
               (SELECT array_agg(a.attname::text ORDER BY k.place)
                FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, place)
                JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
                WHERE k.place <= coalesce((to_jsonb(i) ->> 'indnkeyatts')::int, i.indnatts))
        FROM pg_catalog.pg_index i
        WHERE i.indrelid = $1 AND (i.indisprimary OR i.indisreplident)";
    let mut keys = CatalogKeys::default();
    for row in client.query(query, &[&relation]).await? {
        let columns: Option<Vec<String>> = row.try_get(2)?;
        if row.try_get(0)? {
            keys.primary.clone_from(&columns);
        }
        if row.try_get(1)? {
            keys.identity_index = columns;
        }
    }
    Ok(keys)
}

//! The questions that only the catalog can answer: what a type oid is, how a key is ordered, and what the stream leaves out.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_postgres::{Client, Error};

use super::{Attribute, CatalogFacts, CatalogKeys, ColumnFacts, PgType, Questions, TypeKind};
use crate::lsn::Lsn;

struct Row {
    oid: u32,
    schema: String,
    name: String,
    class: u8,
    delimiter: u8,
    base: u32,
    typmod: i32,
    /// 0: not an array.
    element: u32,
    /// Of a range or multirange.
    subtype: u32,
    /// Name, number, type and modifier of each.
    attributes: Vec<(String, i16, u32, i32)>,
}

/// What these oids are, with all that they are made of. An oid that the catalog does not know is left out.
///
/// # Errors
///
/// What the server or the connection says.
pub async fn types(client: &Client, oids: &[u32]) -> Result<Vec<Arc<PgType>>, Error> {
    // Elements, bases, subtypes and attributes are wanted as well, in one round trip. An array type is one that its element's type
    // names as such: int2vector has elements too. rngmultitypid is there from Postgres 14 on.
    let query = "WITH RECURSIVE wanted (oid) AS (
            SELECT unnest($1::oid[])
            UNION
            SELECT part.oid
            FROM wanted w
            JOIN pg_catalog.pg_type t ON t.oid = w.oid
            CROSS JOIN LATERAL (
                SELECT t.typbasetype
                UNION ALL
                SELECT t.typelem
                UNION ALL
                SELECT a.atttypid FROM pg_catalog.pg_attribute a
                WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
                UNION ALL
                SELECT r.rngsubtype FROM pg_catalog.pg_range r
                WHERE t.oid IN (r.rngtypid, (to_jsonb(r) ->> 'rngmultitypid')::oid)
            ) part (oid)
            WHERE part.oid <> 0
        )
        SELECT t.oid, n.nspname::text, t.typname::text, t.typtype, t.typdelim, t.typbasetype, t.typtypmod,
               (SELECT e.oid FROM pg_catalog.pg_type e WHERE e.oid = t.typelem AND e.typarray = t.oid),
               (SELECT r.rngsubtype FROM pg_catalog.pg_range r
                WHERE t.oid IN (r.rngtypid, (to_jsonb(r) ->> 'rngmultitypid')::oid)),
               a.names, a.types, a.typmods, a.numbers
        FROM pg_catalog.pg_type t
        JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
        CROSS JOIN LATERAL (
            SELECT coalesce(array_agg(a.attname::text ORDER BY a.attnum), '{}') AS names,
                   coalesce(array_agg(a.atttypid ORDER BY a.attnum), '{}') AS types,
                   coalesce(array_agg(a.atttypmod ORDER BY a.attnum), '{}') AS typmods,
                   coalesce(array_agg(a.attnum ORDER BY a.attnum), '{}') AS numbers
            FROM pg_catalog.pg_attribute a
            WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        ) a
        WHERE t.oid IN (SELECT oid FROM wanted)";
    let oids: Vec<u32> = oids.to_vec();
    let rows: HashMap<u32, Row> = client
        .query(query, &[&oids])
        .await?
        .iter()
        .map(|row| {
            let class: i8 = row.try_get(3)?;
            let delimiter: i8 = row.try_get(4)?;
            let names: Vec<String> = row.try_get(9)?;
            let types: Vec<u32> = row.try_get(10)?;
            let typmods: Vec<i32> = row.try_get(11)?;
            let numbers: Vec<i16> = row.try_get(12)?;
            let described = Row {
                oid: row.try_get(0)?,
                schema: row.try_get(1)?,
                name: row.try_get(2)?,
                class: class.cast_unsigned(),
                delimiter: delimiter.cast_unsigned(),
                base: row.try_get(5)?,
                typmod: row.try_get(6)?,
                element: row.try_get::<_, Option<u32>>(7)?.unwrap_or_default(),
                subtype: row.try_get::<_, Option<u32>>(8)?.unwrap_or_default(),
                attributes: names
                    .into_iter()
                    .zip(numbers)
                    .zip(types)
                    .zip(typmods)
                    .map(|(((name, number), ty), typmod)| (name, number, ty, typmod))
                    .collect(),
            };
            Ok((described.oid, described))
        })
        .collect::<Result<_, Error>>()?;
    Ok(oids.iter().filter_map(|oid| assemble(*oid, &rows)).collect())
}

fn assemble(oid: u32, rows: &HashMap<u32, Row>) -> Option<Arc<PgType>> {
    // Types are well founded (what a type is made of exists before it, and a row type cannot hold itself), so this ends.
    let row = rows.get(&oid)?;
    let kind = match row.class {
        b'd' => TypeKind::Domain {
            base: assemble(row.base, rows)?,
            typmod: row.typmod,
        },
        b'e' => TypeKind::Enum,
        b'c' => TypeKind::Composite {
            attributes: row
                .attributes
                .iter()
                .map(|(name, number, ty, typmod)| {
                    Some(Attribute {
                        name: name.clone(),
                        number: *number,
                        ty: assemble(*ty, rows)?,
                        typmod: *typmod,
                    })
                })
                .collect::<Option<_>>()?,
        },
        b'r' => TypeKind::Range {
            subtype: assemble(row.subtype, rows)?,
        },
        b'm' => TypeKind::Multirange {
            subtype: assemble(row.subtype, rows)?,
        },
        b'b' if row.element != 0 => TypeKind::Array {
            element: assemble(row.element, rows)?,
            delimiter: rows.get(&row.element)?.delimiter,
        },
        b'b' => TypeKind::Base,
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

/// NOT NULL, defaults, enum labels and the decimals of `money`, as they are now.
///
/// # Errors
///
/// What the server or the connection says.
pub async fn facts(client: &Client, relation: u32, questions: &Questions) -> Result<CatalogFacts, Error> {
    // attgenerated is there from Postgres 12 on.
    let query = "SELECT a.attname::text, a.attnotnull, a.attstorage <> 'p',
               CASE WHEN coalesce(to_jsonb(a) ->> 'attgenerated', '') = '' THEN pg_catalog.pg_get_expr(d.adbin, d.adrelid) END
        FROM pg_catalog.pg_attribute a
        LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped";
    let mut facts = CatalogFacts::default();
    for row in client.query(query, &[&relation]).await? {
        let column = ColumnFacts {
            not_null: row.try_get(1)?,
            toasted: row.try_get(2)?,
            default: row.try_get(3)?,
        };
        facts.columns.insert(row.try_get(0)?, column);
    }
    if !questions.enums.is_empty() {
        let query = "SELECT enumtypid, array_agg(enumlabel::text ORDER BY enumsortorder)
            FROM pg_catalog.pg_enum WHERE enumtypid = ANY ($1) GROUP BY 1";
        for row in client.query(query, &[&questions.enums]).await? {
            facts.labels.insert(row.try_get(0)?, row.try_get(1)?);
        }
    }
    if questions.money {
        let places: i32 = client
            .query_one("SELECT pg_catalog.scale(1::money::numeric)", &[])
            .await?
            .try_get(0)?;
        facts.money_places = u32::try_from(places).unwrap_or(facts.money_places);
    }
    Ok(facts)
}

/// Which of these relations there are no more, and where the log ends: what happened to them is before that. `None` for the log's
/// end where the server does not tell.
///
/// # Errors
///
/// What the server or the connection says.
pub async fn gone(client: &Client, relations: &[u32]) -> Result<(Vec<u32>, Option<Lsn>), Error> {
    let query = "SELECT coalesce(array_agg(known.oid), '{}'),
               CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL ELSE pg_catalog.pg_current_wal_insert_lsn()::text END
        FROM unnest($1::oid[]) known (oid)
        WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = known.oid)";
    let row = client.query_one(query, &[&relations]).await?;
    let end: Option<String> = row.try_get(1)?;
    Ok((row.try_get(0)?, end.and_then(|end| end.parse().ok())))
}

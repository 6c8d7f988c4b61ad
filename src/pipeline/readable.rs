//! Whether the rows of the published tables can be read: the stream needs no right to them, a snapshot does.

use tokio_postgres::{Client, Error};

use super::published::PublishedTable;
use super::refusal::Refusal;

/// What keeps the present role from reading all rows of these tables, if anything does: it lacks a right, or policies show it only some
/// of the rows.
pub(super) async fn check(client: &Client, tables: &[PublishedTable]) -> Result<Option<Refusal>, Error> {
    let oids: Vec<u32> = tables.iter().map(|table| table.oid).collect();
    // A right to the table, or to each column that is published.
    let query = "SELECT c.oid,
               pg_catalog.has_schema_privilege(c.relnamespace, 'USAGE')
                   AND pg_catalog.has_table_privilege(c.oid, 'SELECT') AS whole,
               pg_catalog.has_schema_privilege(c.relnamespace, 'USAGE') AS schema,
               ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
                     WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                       AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')) AS columns,
               pg_catalog.row_security_active(c.oid) AS policies
        FROM pg_catalog.pg_class c WHERE c.oid = ANY($1)";
    let (mut unreadable, mut partly) = (Vec::new(), Vec::new());
    for row in client.query(query, &[&oids]).await? {
        let oid: u32 = row.try_get(0)?;
        let Some(table) = tables.iter().find(|table| table.oid == oid) else {
            continue;
        };
        let (whole, schema): (bool, bool) = (row.try_get(1)?, row.try_get(2)?);
        let columns: Vec<String> = row.try_get(3)?;
        let policies: bool = row.try_get(4)?;
        let name = table.full_name();
        let each_column = || {
            table
                .columns()
                .all(|column| columns.iter().any(|known| known == column))
        };
        let readable = whole || schema && each_column();
        if !readable {
            unreadable.push(name);
        } else if policies {
            partly.push(name);
        }
    }
    unreadable.sort();
    partly.sort();
    Ok(match (unreadable.is_empty(), partly.is_empty()) {
        (false, _) => Some(Refusal::NotReadable { tables: unreadable }),
        (_, false) => Some(Refusal::RowSecurity { tables: partly }),
        _ => None,
    })
}

//! Whether the rows of the published tables can be read: the stream needs no right to them, a snapshot does.

use tokio_postgres::{Client, Error};

use super::published::PublishedTable;
use super::refusal::Refusal;

/// What keeps the present role from reading all rows of these tables, if anything does: it lacks a right, or policies show it only some
/// of the rows.
pub(super) async fn check(client: &Client, tables: &[PublishedTable]) -> Result<Option<Refusal>, Error> {
    let oids: Vec<u32> = tables.iter().map(|table| table.oid).collect();
    // To the table itself: a right to each of its columns is none to lock it (`LockTableAclCheck`).
    let query = "SELECT c.oid,
               pg_catalog.has_schema_privilege(c.relnamespace, 'USAGE')
                   AND pg_catalog.has_table_privilege(c.oid, 'SELECT') AS readable,
               pg_catalog.row_security_active(c.oid) AS policies
        FROM pg_catalog.pg_class c WHERE c.oid = ANY($1)";
    let (mut unreadable, mut partly) = (Vec::new(), Vec::new());
    for row in client.query(query, &[&oids]).await? {
        let oid: u32 = row.try_get(0)?;
        let Some(table) = tables.iter().find(|table| table.oid == oid) else {
            continue;
        };
        let (readable, policies): (bool, bool) = (row.try_get(1)?, row.try_get(2)?);
        let name = table.full_name();
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

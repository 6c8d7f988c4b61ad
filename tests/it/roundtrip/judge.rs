//! Postgres compares what went in with what came back.

use super::tables::{Table, quoted};
use crate::harness::{Database, Row, Written, rows_of};
use tokio_postgres::error::SqlState;

/// Puts the rows into a second table, and compares: by `IS DISTINCT FROM` where the type has equality, by its text, and by the bytes
/// of its send function, so that -0 is not 0, 1.0 not 1.00 and a month not thirty days. Returns how many values were compared.
pub async fn find_no_difference(database: &Database<'_>, table: &Table, written: &Written, copies: usize) -> usize {
    let (name, back) = (table.name, format!("back_{}", table.name));
    database
        .execute(&format!(
            "DROP TABLE IF EXISTS {back}; CREATE TABLE {back} (LIKE {name})"
        ))
        .await;
    let columns = written.columns.join(", ");
    for rows in written.rows.chunks(20) {
        let rows: Vec<String> = rows
            .iter()
            .map(|row| {
                let values: Vec<String> = row.iter().map(|value| quoted(value.as_deref())).collect();
                format!("({})", values.join(", "))
            })
            .collect();
        database
            .execute(&format!("INSERT INTO {back} ({columns}) VALUES {}", rows.join(", ")))
            .await;
    }
    let missing = format!(
        "SELECT coalesce(string_agg(id::text, ' '), '') FROM \
         (SELECT id FROM {name} LEFT JOIN {back} USING (id) GROUP BY id HAVING count(*) <> {copies}) AS missing"
    );
    assert_eq!(
        database.value(&missing).await.as_deref(),
        Some(""),
        "rows of {name} that did not come back"
    );
    let count = format!("SELECT count(*) = {copies} * (SELECT count(*) FROM {name}) FROM {back}");
    assert_eq!(
        database.value(&count).await.as_deref(),
        Some("t"),
        "rows in {back} and in {name}"
    );

    let mut differences = Vec::new();
    for (n, ty) in table.types.iter().enumerate() {
        let different = |conditions: &[String]| {
            format!(
                "SELECT a.id, left(format('%s', a.c{n}), 500) AS put_in, left(format('%s', b.c{n}), 500) AS came_back \
                 FROM {name} a JOIN {back} b USING (id) WHERE {} LIMIT 3",
                conditions.join(" OR ")
            )
        };
        // The output function's text: a cast to text pads no blanks, and leaves in what xml prints without.
        let always = [
            format!("num_nulls(a.c{n}) <> num_nulls(b.c{n})"),
            format!("format('%s', a.c{n}) <> format('%s', b.c{n})"),
        ];
        let where_there_is = [
            format!("a.c{n} IS DISTINCT FROM b.c{n}"),
            format!("record_send(ROW(a.c{n})) IS DISTINCT FROM record_send(ROW(b.c{n}))"),
        ];
        let all: Vec<String> = always.iter().chain(&where_there_is).cloned().collect();
        let mut found = Vec::new();
        match compared(database, &different(&all)).await {
            Some(rows) => found.extend(rows),
            None => {
                found.extend(database.rows(&different(&always)).await);
                for condition in where_there_is {
                    let rows = compared(database, &different(&[condition])).await;
                    found.extend(rows.unwrap_or_default());
                }
            }
        }
        if !found.is_empty() {
            differences.push(format!("{name}.c{n} {}: {found:#?}", ty.name));
        }
    }
    let version = database.postgres.version;
    assert!(differences.is_empty(), "Postgres {version}: {}", differences.join("\n"));
    written.rows.len() * table.types.len()
}

/// What a query finds; None: the types lack what it compares by, equality or a send function. Of containers that shows when what
/// is in them is compared.
async fn compared(database: &Database<'_>, query: &str) -> Option<Vec<Row>> {
    match database.client.simple_query(query).await {
        Ok(answer) => Some(rows_of(&answer)),
        // Boxes and circles are equal if their areas are, and these may be past any float.
        Err(error) => match error.code() {
            Some(&SqlState::UNDEFINED_FUNCTION | &SqlState::NUMERIC_VALUE_OUT_OF_RANGE) => None,
            _ => panic!("{query}: {error:?}"),
        },
    }
}

//! The tables that hold the values.

use super::types::Type;
use super::{MOODS, containers, scalars};
use crate::harness::Database;
use fastrand::Rng;

/// A table `name (id, c0, c1, …)`.
pub struct Table {
    pub name: &'static str,
    /// Of the columns from `c0` on.
    pub types: Vec<Type>,
    pub has_binary_form: bool,
}

/// A literal, whatever it holds.
pub fn quoted(value: Option<&str>) -> String {
    value.map_or("NULL".to_owned(), |value| format!("'{}'", value.replace('\'', "''")))
}

/// Creates the types and tables of a database.
pub async fn create(database: &Database<'_>, version: u32) -> Vec<Table> {
    let moods: Vec<String> = MOODS.iter().map(|mood| quoted(Some(mood))).collect();
    database
        .execute(&format!(
            "CREATE EXTENSION hstore; CREATE EXTENSION citext; CREATE EXTENSION ltree; CREATE EXTENSION cube; CREATE EXTENSION seg; \
             CREATE EXTENSION isn; CREATE TYPE mood AS ENUM ({}); CREATE DOMAIN price AS numeric(8,2); \
             CREATE TABLE \"größe t\" ()",
            moods.join(", ")
        ))
        .await;
    if version == scalars::WITH_PGVECTOR {
        database.execute("CREATE EXTENSION vector").await;
    }
    let scalars = scalars::scalars(version);
    let domains = containers::domains(&scalars);
    let composites = containers::composites(&scalars);
    let ranges = containers::ranges(version);
    let mut text_only = scalars::text_only();
    text_only.extend(text_only.iter().map(Type::array).collect::<Vec<_>>());
    let containers = containers::ranges_of_containers();
    text_only.extend(containers.types);
    for ddl in domains
        .ddl
        .iter()
        .chain(&composites.ddl)
        .chain(&ranges.ddl)
        .chain(&containers.ddl)
    {
        database.execute(ddl).await;
    }
    let arrays = scalars.iter().map(Type::array).collect();
    let tables: Vec<Table> = [
        ("v_scalars", scalars, true),
        ("v_arrays", arrays, true),
        ("v_domains", domains.types, true),
        ("v_composites", composites.types, true),
        ("v_ranges", ranges.types, true),
        ("v_text_only", text_only, false),
    ]
    .into_iter()
    .map(|(name, types, has_binary_form)| Table {
        name,
        types,
        has_binary_form,
    })
    .collect();
    for table in &tables {
        table.create(database).await;
    }
    tables
}

impl Table {
    async fn create(&self, database: &Database<'_>) {
        let columns: Vec<String> = self
            .types
            .iter()
            .enumerate()
            .map(|(n, ty)| format!("c{n} {}", ty.name))
            .collect();
        database
            .execute(&format!(
                "CREATE TABLE {name} (id int PRIMARY KEY, {columns}); ALTER TABLE {name} REPLICA IDENTITY FULL",
                name = self.name,
                columns = columns.join(", ")
            ))
            .await;
    }

    /// A row of NULLs; then in each column the edges, and after them so many generated values.
    pub async fn fill(&self, database: &Database<'_>, rng: &mut Rng, generated: usize) {
        let edges = self.types.iter().map(|ty| ty.edges.len()).max().unwrap_or_default();
        for id in 0..=edges + generated {
            let values: Vec<String> = self
                .types
                .iter()
                .map(|ty| match id.checked_sub(1) {
                    None => quoted(None),
                    Some(at) => match ty.edges.get(at) {
                        Some(edge) => quoted(Some(edge)),
                        None => quoted(Some(&(ty.generate)(rng))),
                    },
                })
                .collect();
            database
                .execute(&format!(
                    "INSERT INTO {} VALUES ({id}, {})",
                    self.name,
                    values.join(", ")
                ))
                .await;
        }
    }

    /// The columns that are arrays of boxes.
    pub fn semicolons(&self) -> Vec<String> {
        let columns = self
            .types
            .iter()
            .enumerate()
            .filter(|(_, ty)| ty.is_array && ty.delimiter == ';');
        columns.map(|(n, _)| format!("{}.c{n}", self.name)).collect()
    }
}

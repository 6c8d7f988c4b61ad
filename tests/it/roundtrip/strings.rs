//! Under a rule that writes Postgres's text every value comes back, those too that no Avro type holds.

use super::tables::{self, Table};
use super::{LONG, judge, publishing_values};
use crate::harness::{Kafka, Postgres, Walferry, heavy, write_back};
use crate::workload::{pipeline, seed};
use fastrand::Rng;

/// Values of a type that are bad rows without the rule.
fn beyond_avro(ty: &str) -> &'static [&'static str] {
    match ty {
        "numeric(12,2)" | "numeric(5,5)" | "numeric(38,10)" | "numeric(20,0)" | "numeric(1000,500)" => &["NaN"],
        "timestamp" | "timestamptz" => &["294276-12-31 23:59:59.999999", "294247-01-10 04:00:54.775807"],
        "xid8" => &["18446744073709551615", "9223372036854775808"],
        "integer[]" => &["{{1,2},{3,NULL}}", "[0:1]={1,2}", "{{{1}}}"],
        "text[]" => &[r#"{{a,NULL},{"b \"c\"",""}}"#, "[-1:-1]={x}"],
        "numeric(12,2)[]" => &["{1.5,NaN}"],
        _ => &[],
    }
}

async fn every_value_comes_back_as_text(version: u32, format: &str) {
    let _alone = heavy().await;
    let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
    let database = postgres.database().await;
    let mut rng = Rng::with_seed(seed());
    let mut tables = tables::create(&database, version).await;
    // The binary form of what is made of other types is not printed.
    tables.retain(|table| format == "text" || table.name == "v_scalars");
    for ty in tables.iter_mut().flat_map(|table| &mut table.types) {
        let beyond = beyond_avro(&ty.name);
        ty.edges.extend(beyond.iter().map(|edge| (*edge).to_owned()));
    }
    let name = pipeline();
    let rules = match format {
        "text" => "{ 'public.v_*.c*' = { type = 'string' } }".to_owned(),
        _ => {
            let hstore = tables[0].types.iter().position(|ty| ty.name == "hstore").unwrap();
            format!(
                "{{ 'public.v_scalars.c*' = {{ type = 'string' }}, 'public.v_scalars.c{hstore}' = {{ exclude = false }} }}"
            )
        }
    };
    let config = publishing_values(&name, &database, &kafka, format)
        .text("avro.envelope", "row")
        .set("avro.columns", &rules);
    let mut walferry = Walferry::start(&config);
    walferry.ready(LONG).await;
    for table in &tables {
        table.fill(&database, &mut rng, 30).await;
    }
    database.confirmed(&name, LONG, || walferry.log()).await;
    let exit = walferry.terminate(LONG).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    let topic = |table: &Table| format!("{name}.public.{}", table.name);
    let topics: Vec<String> = tables.iter().map(topic).collect();
    let found = write_back(&kafka.address, &topics, &[]).await;
    let mut values = 0;
    for table in &tables {
        values += judge::find_no_difference(&database, table, &found[&topic(table)], 1).await;
    }
    eprintln!("round trip as text: Postgres {version}, {format}: {values} values came back");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_value_comes_back_as_text_from_postgres_14() {
    every_value_comes_back_as_text(14, "binary").await;
    every_value_comes_back_as_text(14, "text").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_value_comes_back_as_text_from_postgres_18() {
    every_value_comes_back_as_text(18, "binary").await;
    every_value_comes_back_as_text(18, "text").await;
}

//! As many columns as a table can have.

use crate::harness::{Config, Kafka, Postgres};
use crate::records::{faultless_events, publish};
use crate::workload::pipeline;

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_1600_columns_arrives_whole() {
    for (version, format, identity) in [(10, "text", "DEFAULT"), (18, "text", "FULL"), (18, "binary", "FULL")] {
        let (postgres, kafka) = (Postgres::shared(version), Kafka::shared());
        let database = postgres.database().await;
        let columns: Vec<String> = (1..1600).map(|n| format!("c{n} int")).collect();
        database
            .execute(&format!(
                "CREATE TABLE t (id int PRIMARY KEY, {}); ALTER TABLE t REPLICA IDENTITY {identity}",
                columns.join(", ")
            ))
            .await;
        let name = pipeline();
        let config = Config::new(&name, &database, &kafka).text("replication.format", format);
        let values: Vec<String> = (1..1600).map(|n| (n * 1_000 - 800_000).to_string()).collect();
        publish(
            &database,
            &config,
            &[
                &format!("INSERT INTO t VALUES (1, {})", values.join(", ")),
                "INSERT INTO t (id, c1599) VALUES (2, 7)",
                "UPDATE t SET c800 = NULL, c1599 = -1 WHERE id = 1",
                "DELETE FROM t WHERE id = 2",
            ],
        )
        .await;
        let topic = format!("{name}.public.t");
        let reading = faultless_events(&kafka, std::slice::from_ref(&topic)).await;
        assert_eq!(reading.changes, 4);
        let row = &reading.topics[&topic].rows[0];
        assert_eq!(row.len(), 1600);
        assert_eq!(row["c1"].as_deref(), Some("-799000"));
        assert_eq!(row["c800"], None);
        assert_eq!(row["c1599"].as_deref(), Some("-1"));
        reading.equals(&database, "t", &topic).await;
    }
}

//! Flink's SQL client, with a cluster of its own in the same process, and what it is told to do.

use super::tables::{TABLES, TOTALS, Table, Total};
use crate::harness::{Env, fresh, tail};
use std::fmt::Write;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// One Flink job over all topics of these pipelines.
pub struct Job<'a> {
    pub brokers: &'a str,
    pub registry: &'a str,
    /// `avro.types`, and the name.
    pub pipelines: Vec<(&'static str, String)>,
    /// Whether Flink drops a change that comes again; it wants tables with a key then.
    pub deduplicates: bool,
    /// The consumers' `isolation.level`.
    pub isolation: &'static str,
}

/// The topic of what Flink makes of a table.
pub fn copy(pipeline: &str, table: &str) -> String {
    format!("{pipeline}.copy.{table}")
}

impl Job<'_> {
    pub fn tables(&self) -> impl Iterator<Item = &'static Table> {
        TABLES
            .iter()
            .filter(|table| !self.deduplicates || !table.key.is_empty())
    }

    fn sql(&self) -> String {
        let mut sql = String::from(
            "SET 'execution.target' = 'local';\nSET 'parallelism.default' = '1';\nSET 'table.dml-sync' = 'true';\n",
        );
        writeln!(
            sql,
            "SET 'table.exec.source.cdc-events-duplicate' = '{}';",
            self.deduplicates
        )
        .unwrap();
        let mut inserts = String::new();
        for (types, name) in &self.pipelines {
            for table in self.tables() {
                self.table(types, name, table, &mut sql, &mut inserts);
            }
            for total in &TOTALS {
                self.total(name, total, &mut sql, &mut inserts);
            }
        }
        write!(sql, "EXECUTE STATEMENT SET BEGIN\n{inserts}END;\n").unwrap();
        sql
    }

    /// As any user of Flink would declare a table whose topic Debezium writes; and where its rows go.
    fn table(&self, types: &str, name: &str, table: &Table, sql: &mut String, inserts: &mut String) {
        let forms: Vec<_> = table
            .columns
            .iter()
            .map(|column| (column, column.form(types)))
            .collect();
        let key: Vec<String> = table
            .key
            .iter()
            .map(|place| format!("`{}`", forms[*place].1.name))
            .collect();
        let key = match key.is_empty() {
            true => String::new(),
            false => format!(",\n  PRIMARY KEY ({}) NOT ENFORCED", key.join(", ")),
        };
        let declared: Vec<String> = forms
            .iter()
            .map(|(_, form)| format!("  `{}` {}", form.name, form.ty))
            .collect();
        let (brokers, registry, isolation, table_name) = (self.brokers, self.registry, self.isolation, table.name);
        write!(
            sql,
            "CREATE TABLE `{name}.{table_name}` (\n{}{key}\n) WITH (\n  'connector' = 'kafka',\n  'topic' = '{name}.public.{table_name}',\n  \
             'properties.bootstrap.servers' = '{brokers}',\n  'properties.group.id' = '{name}',\n  'properties.isolation.level' = '{isolation}',\n  \
             'scan.startup.mode' = 'earliest-offset',\n  \
             'format' = 'debezium-avro-confluent',\n  'debezium-avro-confluent.url' = '{registry}'\n);\n",
            declared.join(",\n"),
        )
        .unwrap();

        let copied: Vec<String> = forms
            .iter()
            .map(|(column, form)| {
                format!(
                    "  `{}` {}",
                    form.name,
                    if column.as_string { "STRING" } else { form.ty }
                )
            })
            .collect();
        let selected: Vec<String> = forms
            .iter()
            .map(|(column, form)| match column.as_string {
                true => format!("CAST(`{}` AS STRING)", form.name),
                false => format!("`{}`", form.name),
            })
            .collect();
        self.sink(name, table_name, &copied.join(",\n"), &key, sql);
        writeln!(
            inserts,
            "INSERT INTO `{name}.{table_name}.copy` SELECT {} FROM `{name}.{table_name}`;",
            selected.join(", ")
        )
        .unwrap();
    }

    fn total(&self, name: &str, total: &Total, sql: &mut String, inserts: &mut String) {
        let key = total.columns.split(' ').next().unwrap();
        let key = format!(", PRIMARY KEY ({key}) NOT ENFORCED");
        self.sink(name, total.name, total.columns, &key, sql);
        writeln!(
            inserts,
            "INSERT INTO `{name}.{}.copy` SELECT {} FROM `{name}.{}` GROUP BY {};",
            total.name, total.select, total.of, total.by
        )
        .unwrap();
    }

    /// A topic with a table's rows by their key; without a key, with its changes.
    fn sink(&self, name: &str, table: &str, columns: &str, key: &str, sql: &mut String) {
        let how = match key.is_empty() {
            true => "'connector' = 'kafka',\n  'format' = 'debezium-json'",
            false => "'connector' = 'upsert-kafka',\n  'key.format' = 'json',\n  'value.format' = 'json'",
        };
        write!(
            sql,
            "CREATE TABLE `{name}.{table}.copy` (\n{columns}{key}\n) WITH (\n  {how},\n  'topic' = '{}',\n  \
             'properties.bootstrap.servers' = '{}'\n);\n",
            copy(name, table),
            self.brokers
        )
        .unwrap();
    }
}

pub struct SqlClient {
    child: Child,
    dir: PathBuf,
}

impl SqlClient {
    pub fn start(job: &Job<'_>) -> Self {
        let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name}: scripts/flink sets it"));
        let dir = Env::get().private_dir(&fresh("flink"));
        std::fs::write(dir.join("job.sql"), job.sql()).unwrap();
        // Without a file of configuration it does not start; an empty one will do.
        std::fs::write(dir.join("config.yaml"), "").unwrap();
        let log = File::create(dir.join("log")).unwrap();
        let child = Command::new(variable("WALFERRY_FLINK_JAVA"))
            .args(["-Xmx1536m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
            .args([
                "--add-opens=java.base/java.util=ALL-UNNAMED",
                "--add-opens=java.base/java.lang=ALL-UNNAMED",
            ])
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
            .arg(format!("-Djava.io.tmpdir={}", dir.display()))
            .arg("-cp")
            .arg(format!("{}/*", variable("WALFERRY_FLINK_LIB")))
            .args([
                "org.apache.flink.table.client.SqlClient",
                "embedded",
                "-f",
                "job.sql",
                "-hist",
                "history",
            ])
            .env("FLINK_CONF_DIR", &dir)
            .current_dir(&dir)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        std::fs::write(dir.join("pid"), child.id().to_string()).unwrap();
        SqlClient { child, dir }
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub fn log(&self) -> String {
        format!("--- Flink's log\n{}", tail(&self.dir.join("log"), 80))
    }
}

impl Drop for SqlClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

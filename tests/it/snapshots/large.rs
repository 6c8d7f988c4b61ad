//! Snapshots of millions of rows: `scripts/snapshots` runs them and prints what came of it.

use super::asked::read_again_under_updates;
use super::{SOON, after_kills, is_faultless_but_for, name, reading, rows_read};
use crate::harness::{Config, Database, Kafka, Postgres, Walferry, connect_to, eventually, fresh, read};
use crate::workload::{Workload, create_tables, seed};
use fastrand::Rng;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const HOURS: Duration = Duration::from_secs(4 * 3600);
const KILLS: u64 = 10;

/// A table, and how many thousandths of all rows it has. The published rows of the last are some of its columns and rows.
struct Table {
    name: &'static str,
    share: u64,
    /// Rows numbered from 1 to `$rows`, whose ids the workload does not use.
    fill: &'static str,
    /// What is published of it.
    published: &'static str,
}

const TABLES: [Table; 10] = [
    Table {
        name: "accounts",
        share: 120,
        fill: "INSERT INTO accounts SELECT 16 * n + 8, 'owner ' || n, n / 100.0, n % 2 = 0, '2026-01-01'::timestamptz + n * interval '1 second',
               repeat('n', n % 60) FROM generate_series(1, $rows) n",
        published: "accounts",
    },
    Table {
        name: "orders",
        share: 100,
        fill: "INSERT INTO orders SELECT 'r' || n % 7, 16 * n + 9, n * 1.5, 'paid', '2026-01-01', '2026-01-01', '12:34:56'
               FROM generate_series(1, $rows) n",
        published: "orders",
    },
    // Every fiftieth has a value that is stored apart.
    Table {
        name: "documents",
        share: 60,
        fill: "INSERT INTO documents SELECT md5(n::text)::uuid, repeat('d', CASE WHEN n % 50 = 0 THEN 3000 ELSE 30 END),
               '{\"a\": [1, null]}', '\\x00ff', n / 8.0, 0.5, 0 FROM generate_series(1, $rows) n",
        published: "documents",
    },
    Table {
        name: "events",
        share: 20,
        fill: "INSERT INTO events SELECT 99, 'kind ' || n % 9, '2026-01-01', NULL FROM generate_series(1, $rows) n",
        published: "events",
    },
    Table {
        name: "settings",
        share: 20,
        fill: "INSERT INTO settings SELECT 'filled ' || n, n, n % 1000, NULL FROM generate_series(1, $rows) n",
        published: "settings",
    },
    Table {
        name: "numbers",
        share: 240,
        fill: "INSERT INTO numbers SELECT n, n / 2.0 FROM generate_series(1, $rows) n",
        published: "numbers",
    },
    Table {
        name: "pairs",
        share: 160,
        fill: "INSERT INTO pairs SELECT n, 'b' || n % 7, repeat('x', n % 50) FROM generate_series(1, $rows) n",
        published: "pairs",
    },
    Table {
        name: "wide",
        share: 40,
        fill: "INSERT INTO wide SELECT n FROM generate_series(1, $rows) n",
        published: "wide",
    },
    Table {
        name: "parted",
        share: 140,
        fill: "INSERT INTO parted SELECT n, n % 4, 'p' || n FROM generate_series(1, $rows) n",
        published: "parted",
    },
    Table {
        name: "partly",
        share: 100,
        fill: "INSERT INTO partly SELECT n, 'name ' || n, 'not published' FROM generate_series(1, $rows) n",
        published: "(SELECT id, name FROM partly WHERE id % 10 <> 3) AS partly",
    },
];

const MORE_TABLES: &str = "
    CREATE TABLE numbers (id bigint PRIMARY KEY, half numeric, at timestamptz DEFAULT '2026-01-01');
    CREATE TABLE pairs (a int, b text, v text, PRIMARY KEY (b, a));
    CREATE TABLE parted (id int, part int, v text, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
    CREATE TABLE parted_0 PARTITION OF parted FOR VALUES IN (0); CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
    CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2, 3);
    CREATE TABLE partly (id int PRIMARY KEY, name text, hidden text)";

/// Of what is there already; each connection its own rows.
fn change(rng: &mut Rng, connection: u64, rows: u64) -> String {
    let of = |share: u64, rng: &mut Rng| rng.u64(0..rows * share / 4000) * 4 + connection + 1;
    let new = rows + rng.u64(0..1_000_000_000) * 4 + connection;
    match rng.u32(0..11) {
        0 => format!("UPDATE numbers SET half = half + 1 WHERE id = {}", of(240, rng)),
        1 => format!("UPDATE numbers SET id = {new} WHERE id = {}", of(240, rng)),
        2 => format!("DELETE FROM numbers WHERE id = {}", of(240, rng)),
        3 => format!("INSERT INTO numbers VALUES ({new}, 0.5) ON CONFLICT DO NOTHING"),
        4 => {
            let from = of(160, rng);
            format!(
                "UPDATE pairs SET v = v || 'y' \
                 WHERE (b, a) IN (SELECT 'b' || n % 7, n FROM generate_series({from}, {from} + 20, 4) n)"
            )
        }
        5 => format!("UPDATE wide SET c3 = c3 + 1 WHERE id = {}", of(40, rng)),
        6 => format!("UPDATE parted SET v = v || 'y' WHERE id = {}", of(140, rng)),
        7 => format!("UPDATE parted SET part = (part + 1) % 4 WHERE id = {}", of(140, rng)),
        8 => format!("UPDATE partly SET name = name || 'y' WHERE id = {}", of(100, rng)),
        9 => format!("DELETE FROM partly WHERE id = {}", of(100, rng)),
        _ => format!(
            "UPDATE documents SET version = version + 1 WHERE id = md5('{}')::uuid",
            of(60, rng)
        ),
    }
}

/// Changes of what is there already, until it is stopped.
struct Changes {
    tasks: Vec<tokio::task::JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    made: Arc<AtomicU64>,
}

impl Changes {
    async fn start(database: &Database<'_>, rows: u64, seed: u64) -> Self {
        let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = Vec::new();
        for connection in 0..4 {
            let client = connect_to(database.postgres.port, &database.name).await.unwrap();
            let (stop, made) = (stop.clone(), made.clone());
            let mut rng = Rng::with_seed(seed.wrapping_add(connection));
            tasks.push(tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    client.batch_execute(&change(&mut rng, connection, rows)).await.unwrap();
                    made.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(rng.u64(0..40))).await;
                }
            }));
        }
        Changes { tasks, stop, made }
    }

    async fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        self.made.load(Ordering::Relaxed)
    }
}

fn rows() -> u64 {
    let rows = std::env::var("WALFERRY_SNAPSHOT_ROWS").expect("WALFERRY_SNAPSHOT_ROWS: scripts/snapshots sets it");
    rows.parse().expect("WALFERRY_SNAPSHOT_ROWS is a number")
}

async fn fill(database: &Database<'_>, rows: u64, publication: &str) {
    create_tables(database).await;
    database.execute(MORE_TABLES).await;
    let columns: Vec<String> = (1..60).map(|n| format!("c{n} int DEFAULT {n}")).collect();
    database
        .execute(&format!(
            "CREATE TABLE wide (id bigint PRIMARY KEY, {})",
            columns.join(", ")
        ))
        .await;
    for table in &TABLES {
        let rows = (rows * table.share / 1000).to_string();
        database.execute(&table.fill.replace("$rows", &rows)).await;
    }
    database.execute("ANALYZE").await;
    let tables: Vec<&str> = TABLES
        .iter()
        .map(|table| table.name)
        .filter(|name| *name != "partly")
        .collect();
    database
        .execute(&format!(
            "CREATE PUBLICATION {publication} FOR TABLE {}, partly (id, name) WHERE (id % 10 <> 3) \
             WITH (publish_via_partition_root = true)",
            tables.join(", ")
        ))
        .await;
}

/// The rows that are read, and the tables of which all are.
async fn progress(walferry: &Walferry) -> (u64, BTreeSet<String>, bool) {
    let status = walferry.status().await;
    let tables = status["snapshot"]["tables"].as_array().cloned().unwrap_or_default();
    let rows = tables.iter().filter_map(|table| table["rows"].as_u64()).sum();
    let done = tables.iter().filter(|table| table["state"] == "done");
    let done = done.map(|table| table["table"].as_str().unwrap().to_owned()).collect();
    (rows, done, status["snapshot"]["due"] == false)
}

/// Kills it each time that a further part of the rows is read; no table that is finished may be read any more.
async fn killed(database: &Database<'_>, config: &Config, role: &str, rows: u64) -> Walferry {
    let mut walferry = Walferry::start(config);
    walferry.ready(SOON).await;
    let mut revoked = BTreeSet::new();
    let mut before = 0;
    for kill in 1..=KILLS {
        // Between a look and its kill more are read.
        let part = rows / (KILLS + 6);
        let done = eventually("a part of the rows is read", HOURS, async || {
            let (now, done, _) = progress(&walferry).await;
            (now >= before + part).then_some(done)
        })
        .await;
        assert!(
            revoked.len() + done.difference(&revoked).count() < TABLES.len(),
            "all was read at kill {kill}"
        );
        // That they are finished is recorded by then.
        tokio::time::sleep(Duration::from_secs(3)).await;
        (before, ..) = progress(&walferry).await;
        walferry.kill();
        for table in done.difference(&revoked).cloned().collect::<Vec<_>>() {
            database.execute(&format!("REVOKE SELECT ON {table} FROM {role}")).await;
            revoked.insert(table);
        }
        eprintln!("kill {kill}: {before} rows were read, {} tables wholly", revoked.len());
        walferry = Walferry::start(config);
        walferry.ready(SOON).await;
        // What a process counts begins with what was recorded of the tables that it goes on with.
        (before, ..) = progress(&walferry).await;
    }
    eventually("all is read", HOURS, async || {
        let (.., is_read) = progress(&walferry).await;
        is_read.then_some(())
    })
    .await;
    walferry
}

/// A line of the report.
async fn ten_tables(postgres: &Postgres, guarantee: &str, rows: u64) -> String {
    let kafka = Kafka::shared();
    let database = postgres.database().await;
    let name = name();
    fill(&database, rows, &name).await;
    let role = fresh("reader");
    database
        .execute(&format!(
            "CREATE ROLE {role} LOGIN REPLICATION; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}"
        ))
        .await;
    let config = reading(&name, &database, &kafka, guarantee)
        .text("postgres.user", &role)
        .set("snapshot.chunk_rows", "10000")
        // So that it is not over before it is killed for the last time.
        .set("snapshot.max_rows_per_second", &(rows / 200).to_string());
    let seed = seed();
    let begin = Instant::now();
    let workload = Workload::without_truncates(&database, 4, seed, Duration::from_millis(40)).await;
    let changes = Changes::start(&database, rows, seed).await;
    let mut walferry = killed(&database, &config, &role, rows).await;
    let (seconds, memory) = (begin.elapsed().as_secs(), walferry.peak_memory_mib());
    let changes = changes.stop().await + workload.stop().await;
    database.confirmed(walferry.slot(), HOURS, || walferry.log()).await;
    let exit = walferry.terminate(SOON).await;
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);

    let (mut found, mut again) = (0, 0);
    for table in &TABLES {
        // One after the other: all of them at once would not fit into memory.
        let topic = format!("{name}.public.{}", table.name);
        let mut reading = read(&kafka.address, std::slice::from_ref(&topic)).await;
        // Gaps: the positions in between are those of the other tables.
        is_faultless_but_for(after_kills(guarantee), &mut reading);
        // Where a kill began the table without a key anew, its rows come again.
        if table.name != "events" {
            reading.equals(&database, table.published, &topic).await;
        }
        let read = rows_read(&reading, &topic);
        let there = rows * table.share / 1000;
        eprintln!(
            "{}: {read} rows read, {there} were there, {} records again",
            table.name, reading.duplicates
        );
        if guarantee == "exactly-once" && table.name != "events" {
            assert_eq!(reading.duplicates, 0, "{}", table.name);
        }
        (found, again) = (found + read, again + reading.duplicates);
    }
    format!(
        "{guarantee:<13} | {:>8} | {KILLS:>5} | {rows:>8} | {found:>9} | {changes:>7} | {again:>8} | {seconds:>7} | {memory:>10} | {seed}",
        postgres.version
    )
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "half an hour: scripts/snapshots"]
async fn ten_tables_of_millions_of_rows_killed_ten_times_give_exactly_these_tables() {
    let rows = rows();
    let mut report = Vec::new();
    for (version, guarantee) in [(16, "exactly-once"), (18, "at-least-once")] {
        let line = ten_tables(&Postgres::shared(version), guarantee, rows).await;
        eprintln!("{line}");
        report.push(line);
    }
    eprintln!(
        "\nguarantee     | Postgres | kills |     rows | rows read | changes | repeated | seconds | peak (MiB) | seed"
    );
    for line in report {
        eprintln!("{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes: scripts/snapshots"]
async fn a_table_of_a_million_rows_is_read_again_under_updates_and_nothing_goes_back() {
    read_again_under_updates(rows() / 5, HOURS).await;
}

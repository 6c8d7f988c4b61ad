//! The page at `/`, over a pipeline that runs: what it is served with, and what a browser makes of it.

use crate::harness::{Browser, Config, Database, Kafka, Postgres, Walferry, eventually, http_with_headers};
use crate::workload::pipeline;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);

/// A name that would be an element, were it not text.
const MARKUP: &str = "<img src=x onerror=\"document.title=1\">";

async fn tables(database: &Database<'_>) {
    let markup = MARKUP.replace('"', "\"\"");
    database
        .execute(&format!(
            "CREATE TABLE orders (id int PRIMARY KEY, v text); CREATE TABLE \"{markup}\" (id int PRIMARY KEY); \
             INSERT INTO orders SELECT n, 'before' FROM generate_series(1, 500) n"
        ))
        .await;
}

fn reading(name: &str, database: &Database<'_>, kafka: &Kafka) -> Config {
    Config::new(name, database, kafka)
        .text("snapshot.mode", "initial")
        .text("delivery.state_topic", &format!("{name}.state"))
        .text("delivery.max_in_flight", "256KiB")
}

/// `/status` names the tables as the page shows them.
async fn total(walferry: &Walferry, table: &str) -> u64 {
    walferry.status().await["tables"][table]["total"]
        .as_u64()
        .unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_and_its_figures_are_served_by_a_pipeline_that_runs() {
    let (postgres, kafka) = (Postgres::shared(16), Kafka::shared());
    let database = postgres.database().await;
    tables(&database).await;
    let mut walferry = Walferry::start(&reading(&pipeline(), &database, &kafka));
    walferry.ready(SOON).await;
    let (headers, body) = http_with_headers(&walferry.url("/")).await;
    assert_eq!(headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert_eq!(headers["referrer-policy"], "no-referrer");
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'sha256-"),
        "{policy}"
    );
    assert!(body.starts_with("<!doctype html>"));
    assert!(
        !body.contains(walferry.slot()),
        "the page is the same for all; what it shows it asks for"
    );

    for (sql, records) in [("SELECT", 500), ("UPDATE orders SET v = 'after'", 1_000)] {
        database.execute(sql).await;
        eventually(&format!("{records} records"), SOON, async || {
            (total(&walferry, "public.orders").await == records).then_some(())
        })
        .await;
    }
    let history = eventually("a sample with the rows in it", SOON, async || {
        let (_, body) = http_with_headers(&walferry.url("/status/history")).await;
        let history: Value = serde_json::from_str(&body).unwrap();
        let samples = history["samples"].as_array().unwrap();
        let counted = samples
            .iter()
            .any(|sample| sample["records_per_second"].as_f64() > Some(0.0));
        counted.then_some(history)
    })
    .await;
    let samples = history["samples"].as_array().unwrap();
    let last = samples.last().unwrap();
    assert_eq!(last["state"], "streaming");
    assert!(last["lag_bytes"].is_u64() && last["lag_seconds"].is_f64(), "{last}");
    let ages: Vec<f64> = samples
        .iter()
        .map(|sample| sample["age_seconds"].as_f64().unwrap())
        .collect();
    assert!(ages.is_sorted_by(|older, newer| older > newer), "{ages:?}");
    let status = walferry.status().await;
    assert_eq!(status["in_flight"]["limit_bytes"], 262_144);
    assert_eq!(
        status["reconnects"],
        json!({ "kafka": 0, "postgres": 0, "schema_registry": 0 })
    );
    assert_eq!(status["recent_errors"], json!([]));
    assert!(status["lag_seconds"].is_f64(), "{status}");
}

/// A row of the tables on the page, by its name.
async fn row(browser: &mut Browser, table: &str) -> Option<Vec<String>> {
    let cells = browser
        .value(&format!(
            "[...document.querySelectorAll('#tables tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))\
             .find(cells => cells[0] === {}) ?? null",
            json!(table)
        ))
        .await;
    serde_json::from_value(cells).unwrap()
}

/// The name of the first row, and how the columns are sorted.
async fn order(browser: &mut Browser) -> (String, String) {
    let first = browser.text("#tables tbody tr th").await;
    let sorted = "[...document.querySelectorAll('#tables thead [aria-sort]')]\
                  .map(head => head.textContent + ' ' + head.getAttribute('aria-sort')).join()";
    (first, browser.value(sorted).await.as_str().unwrap().to_owned())
}

/// Goes on with the keyboard to the button of this text.
async fn tab_to(browser: &mut Browser, button: &str) {
    for _ in 0..40 {
        browser.press("Tab").await;
        let focused = "document.activeElement.matches('button') && document.activeElement.textContent";
        if browser.value(focused).await == json!(button) {
            let outline = "getComputedStyle(document.activeElement).outlineStyle";
            assert_eq!(browser.value(outline).await, json!("solid"), "the focus is seen");
            return;
        }
    }
    panic!("no button {button:?} is reached by the keyboard");
}

/// A browser that shows the page of a pipeline that streams.
async fn page_of(walferry: &Walferry) -> Browser {
    let mut browser = Browser::start().await;
    browser.look(1280, false).await;
    browser.open(&walferry.url("/")).await;
    browser
        .until("document.querySelector('#state').textContent === 'streaming'", SOON)
        .await;
    browser
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Chromium: scripts/page"]
async fn a_browser_shows_the_pipeline_and_what_becomes_of_it() {
    let postgres = Postgres::shared(17);
    let mut kafka = Kafka::private().await;
    let database = postgres.database().await;
    tables(&database).await;
    let mut walferry = Walferry::start(&reading(&pipeline(), &database, &kafka));
    walferry.ready(SOON).await;
    let mut browser = page_of(&walferry).await;
    assert_eq!(browser.text("#name").await, walferry.slot());
    assert_eq!(browser.text("#slot").await, walferry.slot());
    assert!(browser.text("#server").await.starts_with("17."));

    eventually_shown(&mut browser, "public.orders", "500").await;

    let markup = MARKUP.replace('"', "\"\"");
    database
        .execute("INSERT INTO orders SELECT n, 'new' FROM generate_series(501, 1734) n")
        .await;
    database.execute("DELETE FROM orders WHERE id <= 34").await;
    database
        .execute(&format!("INSERT INTO \"{markup}\" VALUES (1), (2), (3)"))
        .await;
    let shown = eventually_shown(&mut browser, "public.orders", "1,802").await;
    let counts: Vec<&str> = shown.iter().skip(2).take(5).map(String::as_str).collect();
    assert_eq!(
        counts,
        ["1,802", "1,234", "0", "68", "500"],
        "records, created, updated, deleted with their tombstones, read"
    );
    browser
        .until(
            "document.querySelector('#snapshot-note').textContent.startsWith('2 of 2 tables, 500 rows, 100.0 %')",
            SOON,
        )
        .await;
    assert_eq!(browser.text("#errors li").await, "None since the start.");

    // A name is text.
    eventually_shown(&mut browser, &format!("public.{MARKUP}"), "3").await;
    assert_eq!(browser.value("document.images.length").await, json!(0));
    assert_eq!(
        browser.text("title").await,
        format!("streaming · {} · walferry", walferry.slot())
    );

    // Sorted by the keyboard alone.
    assert_eq!(order(&mut browser).await.1, "Records/s descending");
    tab_to(&mut browser, "Records").await;
    browser.press("Enter").await;
    assert_eq!(
        order(&mut browser).await,
        ("public.orders".to_owned(), "Records descending".to_owned())
    );
    browser.press("Enter").await;
    assert_eq!(
        order(&mut browser).await,
        (format!("public.{MARKUP}"), "Records ascending".to_owned())
    );
    // The focus outlives a refresh.
    browser
        .value("window.before = document.querySelector('#updated').textContent")
        .await;
    browser
        .until("document.querySelector('#updated').textContent !== window.before", SOON)
        .await;
    assert_eq!(
        browser.value("document.activeElement.textContent").await,
        json!("Records")
    );

    can_be_read(&mut browser).await;
    assert_eq!(browser.faults(), [""; 0]);

    kafka.freeze();
    database
        .execute("INSERT INTO orders SELECT n, repeat('x', 100) FROM generate_series(10001, 40000) n")
        .await;
    browser
        .until(
            "document.querySelector('#state').textContent === 'blocked by kafka'",
            Duration::from_secs(60),
        )
        .await;
    browser
        .until("!document.querySelector('#reason').hidden && document.querySelector('#reason').textContent.includes('not yet confirmed')", SOON)
        .await;
    let announced = browser.text("#announce").await;
    assert!(announced.starts_with("State: blocked by kafka"), "{announced}");
    browser
        .until("document.querySelectorAll('#chart-bytes .shade').length > 0", SOON)
        .await;
    browser
        .until(
            "/not streaming for/.test(document.querySelector('#chart-bytes svg').getAttribute('aria-label'))",
            SOON,
        )
        .await;
    kafka.thaw();
    browser
        .until(
            "document.querySelector('#state').textContent === 'streaming'",
            Duration::from_secs(120),
        )
        .await;
    eventually_shown(&mut browser, "public.orders", "31,802").await;

    assert_eq!(
        browser.value("document.querySelector('#lost').hidden").await,
        json!(true)
    );
    assert_eq!(browser.faults(), [""; 0]);
    walferry.kill();
    browser.until("!document.querySelector('#lost').hidden", SOON).await;
    let lost = browser.text("#lost").await;
    assert!(lost.starts_with("No answer from walferry since "), "{lost}");
}

/// A row of the page whose number of records is this.
async fn eventually_shown(browser: &mut Browser, table: &str, records: &str) -> Vec<String> {
    let begin = Instant::now();
    loop {
        let shown = row(browser, table).await;
        match shown {
            Some(cells) if cells[2] == records => return cells,
            other => assert!(
                begin.elapsed() < SOON,
                "{table} has not {records} records on the page: {other:?}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The least contrast of any text with what is behind it, and whose that is.
const LEAST_CONTRAST: &str = r"(() => {
    const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((part) => part / 255)
        .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
    const behind = (node) => {
        for (; node; node = node.parentElement) {
            const colour = parts(getComputedStyle(node).backgroundColor);
            if ((colour[3] ?? 1) === 1) return colour;
        }
        return [255, 255, 255];
    };
    let least = [99, ''];
    for (const node of document.querySelectorAll('body *')) {
        const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
        if (!own || !node.getClientRects().length || node.closest('script, noscript')) continue;
        const style = getComputedStyle(node);
        const text = light(parts(node instanceof SVGElement ? style.fill : style.color)), ground = light(behind(node));
        const ratio = (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
        if (ratio < least[0]) least = [ratio, node.textContent];
    }
    return least;
})()";

/// The names of all that have this role.
fn named<'a>(said: &'a [(String, String)], role: &str) -> Vec<&'a str> {
    let found = said.iter().filter(|(found, _)| found == role);
    found.map(|(_, name)| name.as_str()).collect()
}

/// Light and dark, wide and on a phone: nothing is cut off, nothing is faint, and everything has a name.
async fn can_be_read(browser: &mut Browser) {
    for (width, dark) in [(400, false), (400, true), (1280, true), (1280, false)] {
        browser.look(width, dark).await;
        let contrast = browser.value(LEAST_CONTRAST).await;
        assert!(contrast[0].as_f64() >= Some(4.5), "dark {dark}: {contrast}");
        let wide = browser.value("document.documentElement.scrollWidth").await;
        assert!(wide.as_u64() <= Some(width.into()), "{wide} of {width} pixels");
    }
    let said = browser.accessible().await;
    for role in [
        "banner",
        "main",
        "contentinfo",
        "status",
        "heading",
        "table",
        "columnheader",
    ] {
        assert!(!named(&said, role).is_empty(), "no {role} in {said:?}");
    }
    let charts = named(&said, "image");
    assert_eq!(charts.len(), 3, "{charts:?}");
    assert!(
        charts
            .iter()
            .all(|chart| chart.contains("in the last 15 minutes: now ")),
        "{charts:?}"
    );
    for role in ["button", "region", "link", "progressbar"] {
        assert!(
            named(&said, role).iter().all(|name| !name.is_empty()),
            "a {role} without a name"
        );
    }
}

/// Pictures for the documents, of a pipeline that has run for as long as the charts reach back: one that has changes all the time,
/// and for a minute no Kafka.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a quarter of an hour, and Chromium: scripts/page --images"]
async fn pictures_of_the_page() {
    let images: PathBuf = std::env::var("WALFERRY_TEST_IMAGES")
        .expect("WALFERRY_TEST_IMAGES: where to")
        .into();
    let postgres = Postgres::private(17, &[]);
    let mut kafka = Kafka::private().await;
    let database = postgres.database().await;
    database
        .execute(
            "CREATE TABLE customers (id int PRIMARY KEY, name text); CREATE TABLE orders (id int PRIMARY KEY, customer int, v text); \
             CREATE TABLE order_items (id int PRIMARY KEY, v text); CREATE TABLE payments (id int PRIMARY KEY, v text); \
             CREATE TABLE stock (id int PRIMARY KEY, amount int); CREATE SCHEMA sales; CREATE TABLE sales.invoices (id int PRIMARY KEY, v text); \
             INSERT INTO customers SELECT n, 'c' || n FROM generate_series(1, 20000) n; \
             INSERT INTO stock SELECT n, n FROM generate_series(1, 5000) n; \
             INSERT INTO orders SELECT n, n, repeat('x', 60) FROM generate_series(1, 50000) n; ANALYZE",
        )
        .await;
    let config = reading("shop", &database, &kafka)
        .text("delivery.max_in_flight", "1MiB")
        .set("replication.tables", "[\"public.*\", \"sales.*\"]");
    let mut walferry = Walferry::start(&config);
    walferry.ready(SOON).await;
    let begin = Instant::now();
    let minute = |number: u64| Duration::from_secs(60 * number);
    let (mut id, mut frozen, mut thawed) = (50_000, false, false);
    while begin.elapsed() < minute(15) {
        let rows = 40 + fastrand::u32(..60) + if begin.elapsed() > minute(11) { 120 } else { 0 };
        let last = id + rows;
        database
            .execute(&format!(
                "INSERT INTO orders SELECT n, n % 20000, repeat('x', 60) FROM generate_series({id} + 1, {last}) n; \
                 INSERT INTO order_items SELECT 3 * n + m, 'item' FROM generate_series({id} + 1, {last}) n, generate_series(0, 2) m; \
                 INSERT INTO payments SELECT n, 'paid' FROM generate_series({id} + 1, {last}, 2) n; \
                 UPDATE stock SET amount = amount - 1 WHERE id % 97 = {id} % 97; \
                 INSERT INTO sales.invoices SELECT n, 'i' FROM generate_series({id} + 1, {last}, 7) n; \
                 DELETE FROM orders WHERE id % 1000 = {id} % 1000 AND id < {id} - 5000"
            ))
            .await;
        id = last;
        if !frozen && begin.elapsed() > minute(6) {
            kafka.freeze();
            frozen = true;
        }
        if !thawed && begin.elapsed() > minute(7) {
            kafka.thaw();
            thawed = true;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let mut browser = page_of(&walferry).await;
    for (name, width, dark) in [
        ("page-light", 1280, false),
        ("page-dark", 1280, true),
        ("phone-light", 400, false),
        ("phone-dark", 400, true),
    ] {
        browser.look(width, dark).await;
        browser
            .until(
                "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))",
                SOON,
            )
            .await;
        browser.picture(&images.join(format!("{name}.png"))).await;
    }
    assert_eq!(browser.faults(), [""; 0]);
}

//! A small shop: customers, products, and orders that are placed, paid, sent and sometimes cancelled.

use std::time::Duration;

use super::DemoError;
use crate::replication::SqlClient;

/// The tables, in the order in which they are made.
pub(super) const TABLES: [&str; 3] = ["customers", "products", "orders"];

/// Makes them; some rows are there before the pipeline is.
pub(super) async fn create(client: &SqlClient) -> Result<(), DemoError> {
    client
        .batch_execute(
            "CREATE SCHEMA shop;
             CREATE TYPE shop.status AS ENUM ('placed', 'paid', 'sent');
             CREATE TABLE shop.customers (id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, name text NOT NULL, since date DEFAULT current_date);
             CREATE TABLE shop.products (sku text PRIMARY KEY, title text NOT NULL, price numeric(10,2) NOT NULL, tags jsonb);
             CREATE TABLE shop.orders (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, customer int NOT NULL,
                 sku text NOT NULL, quantity int NOT NULL, status shop.status NOT NULL DEFAULT 'placed',
                 placed_at timestamptz NOT NULL DEFAULT now(), note text);
             INSERT INTO shop.products VALUES
                ('tea-1', 'Darjeeling', 7.90, '{\"organic\": true}'), ('mug-3', 'Mug, blue', 12.50, NULL), ('pot-2', 'Pot', 34.00, '{}');
             INSERT INTO shop.customers (name) VALUES ('Ada'), ('Grace'), ('Barbara');",
        )
        .await?;
    Ok(())
}

/// Works in the shop until it is dropped.
pub(super) async fn work(client: &SqlClient) -> Result<(), DemoError> {
    let steps = [
        "BEGIN; INSERT INTO shop.orders (customer, sku, quantity) VALUES (1, 'tea-1', 2), (2, 'mug-3', 1); COMMIT",
        "UPDATE shop.orders SET status = 'paid' WHERE id = (SELECT max(id) FROM shop.orders)",
        "UPDATE shop.products SET price = price + 0.10 WHERE sku = 'tea-1'",
        "BEGIN; INSERT INTO shop.customers (name) VALUES ('Edsger');
                INSERT INTO shop.orders (customer, sku, quantity, note) SELECT max(id), 'pot-2', 1, 'gift' FROM shop.customers; COMMIT",
        "UPDATE shop.orders SET status = 'sent' WHERE status = 'paid'",
        "DELETE FROM shop.orders WHERE id = (SELECT min(id) FROM shop.orders)",
    ];
    for step in steps.iter().cycle() {
        client.batch_execute(step).await?;
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    Ok(())
}

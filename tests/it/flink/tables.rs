//! The tables as Flink SQL declares them, and what Postgres says of each row.

/// A column as Flink sees it under one of `avro.types`.
#[derive(Clone, Copy)]
pub struct Form {
    /// In the schema.
    pub name: &'static str,
    /// In Flink SQL.
    pub ty: &'static str,
    /// Postgres's expression for what Flink's JSON has.
    pub expected: &'static str,
}

pub struct Column {
    avro: Form,
    debezium: Form,
    /// A JSON number would not keep the digits.
    pub as_string: bool,
}

const fn column(name: &'static str, ty: &'static str, expected: &'static str) -> Column {
    let form = Form { name, ty, expected };
    Column {
        avro: form,
        debezium: form,
        as_string: false,
    }
}

impl Column {
    const fn in_digits(mut self) -> Column {
        self.as_string = true;
        self
    }

    const fn debezium(mut self, name: &'static str, ty: &'static str, expected: &'static str) -> Column {
        self.debezium = Form { name, ty, expected };
        self
    }

    pub fn form(&self, types: &str) -> Form {
        match types {
            "debezium" => self.debezium,
            _ => self.avro,
        }
    }
}

/// What a copy's last row has, and no other.
#[derive(Clone, Copy)]
pub struct Mark {
    /// By its place among the columns.
    pub column: usize,
    pub value: &'static str,
}

pub struct Table {
    pub name: &'static str,
    /// The places of the primary key's columns.
    pub key: &'static [usize],
    pub columns: &'static [Column],
    /// Inserts the last row.
    pub last: &'static str,
    pub mark: Mark,
}

impl Table {
    /// A query for the rows, each as JSON.
    pub fn expected(&self, types: &str) -> String {
        let fields: Vec<String> = self
            .columns
            .iter()
            .map(|column| column.form(types))
            .map(|form| format!("'{}', {}", form.name, form.expected))
            .collect();
        format!(
            "SELECT json_build_object({}) AS row FROM {}",
            fields.join(", "),
            self.name
        )
    }
}

/// What Flink keeps up to date of a table that changes: the old rows must be taken out again.
pub struct Total {
    pub name: &'static str,
    /// The table that is summed up.
    pub of: &'static str,
    /// The copy's columns; the first is the key, and has the mark.
    pub columns: &'static str,
    pub select: &'static str,
    pub by: &'static str,
    /// A query for the rows, each as JSON.
    pub expected: &'static str,
    pub mark: &'static str,
}

/// A table with what those of the workload lack: arrays, a map, a row, wide decimals.
pub const EXTRA: &str = "
CREATE EXTENSION hstore;
CREATE TYPE place AS (street text, number int);
CREATE TABLE kinds (
    id int PRIMARY KEY, price numeric(30,8), tags text[], numbers bigint[], home place, attributes hstore, code char(4), address inet,
    stamp timestamp(3), clock time(3));
ALTER TYPE order_state ADD VALUE 'end';
";

/// Columns that Flink does not know come and go, before each of the rounds.
pub const ALTERED: [&str; 3] = [
    "ALTER TABLE kinds ADD COLUMN later text DEFAULT 'x'",
    "ALTER TABLE kinds ADD COLUMN number int NOT NULL DEFAULT 1",
    "ALTER TABLE kinds DROP COLUMN later",
];

/// Inserts, updates, NULLs, changed keys and deletes in that table.
pub fn changes(round: usize) -> String {
    let base = round * 1_000;
    format!(
        "BEGIN; INSERT INTO kinds SELECT {base} + n, (n - 200) * 12345678901234567.12345678, ARRAY['a', NULL, 'b \"' || n], \
         ARRAY[n, -n, 9007199254740993], ROW('Straße ' || n, n)::place, hstore('k', n::text) || 'nothing=>NULL', 'ab', '10.0.0.1', \
         timestamp '1969-12-01' + n * interval '7777.777 s', time '00:00' + n * interval '77.007 s' \
         FROM generate_series(1, 400) n; \
         UPDATE kinds SET tags = '{{}}', price = NULL, home = NULL WHERE id % 5 = 0; \
         UPDATE kinds SET numbers = numbers || id::bigint, attributes = NULL WHERE id % 3 = 0; \
         UPDATE kinds SET id = id + 500, home.number = NULL WHERE id % 7 = 0 AND id BETWEEN {base} AND {base} + 400; \
         DELETE FROM kinds WHERE id % 11 = 0; \
         SAVEPOINT s; UPDATE kinds SET code = 'no'; ROLLBACK TO SAVEPOINT s; COMMIT"
    )
}

macro_rules! micros {
    ($of:literal) => {
        concat!("(extract(epoch FROM ", $of, ") * 1000000)::bigint")
    };
}

/// As Debezium writes a timestamp with time zone.
macro_rules! zoned {
    ($of:literal) => {
        concat!(
            "to_char(",
            $of,
            " AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
        )
    };
}

pub const TABLES: [Table; 6] = [
    Table {
        name: "accounts",
        key: &[0],
        columns: &[
            column("id", "BIGINT", "id"),
            column("owner", "STRING", "owner"),
            column("balance", "DECIMAL(12, 2)", "balance::text").in_digits(),
            column("active", "BOOLEAN", "active"),
            column("opened", "BIGINT", micros!("opened")).debezium("opened", "STRING", zoned!("opened")),
            column("note", "STRING", "note"),
        ],
        last: "INSERT INTO accounts VALUES (-1, 'end', 0, NULL, NULL, 'end')",
        mark: Mark {
            column: 1,
            value: "end",
        },
    },
    Table {
        name: "orders",
        key: &[0, 1],
        columns: &[
            column("region", "STRING", "region"),
            column("id", "INT", "id"),
            column("amount", "STRING", "amount::text"),
            column("state", "STRING", "state"),
            column("created", "BIGINT", micros!("created")),
            column("day", "DATE", "day"),
            column("at", "BIGINT", micros!("at")),
        ],
        last: "INSERT INTO orders VALUES ('end', -1, 0, 'end', NULL, NULL, NULL)",
        mark: Mark {
            column: 0,
            value: "end",
        },
    },
    Table {
        name: "documents",
        key: &[0],
        columns: &[
            column("id", "STRING", "id"),
            column("body", "STRING", "body"),
            column("meta", "STRING", "meta::text"),
            column("raw", "BYTES", "encode(raw, 'base64')"),
            column("ratio", "DOUBLE", "ratio"),
            column("small", "FLOAT", "small"),
            column("version", "INT", "version"),
        ],
        last: "INSERT INTO documents VALUES (gen_random_uuid(), 'end', NULL, NULL, NULL, NULL, -1)",
        mark: Mark {
            column: 1,
            value: "end",
        },
    },
    Table {
        name: "events",
        key: &[],
        columns: &[
            column("connection", "INT", "connection"),
            column("kind", "STRING", "kind"),
            column("happened", "BIGINT", micros!("happened")).debezium("happened", "STRING", zoned!("happened")),
            column("payload", "STRING", "payload::text"),
        ],
        last: "INSERT INTO events VALUES (-1, 'end', NULL, NULL)",
        mark: Mark {
            column: 1,
            value: "end",
        },
    },
    Table {
        name: "settings",
        key: &[0],
        columns: &[
            column("Key_u0020name", "STRING", "\"Key name\"").debezium("Key_name", "STRING", "\"Key name\""),
            column("gr_u00F6_u00DFe", "INT", "\"größe\"").debezium("gr__e", "INT", "\"größe\""),
            column("_u0031st", "SMALLINT", "\"1st\"").debezium("_1st", "SMALLINT", "\"1st\""),
            column("order_u002Did", "BIGINT", "\"order-id\"").debezium("order_id", "BIGINT", "\"order-id\""),
        ],
        last: "INSERT INTO settings VALUES ('end', NULL, NULL, NULL)",
        mark: Mark {
            column: 0,
            value: "end",
        },
    },
    Table {
        name: "kinds",
        key: &[0],
        columns: &[
            column("id", "INT", "id"),
            column("price", "DECIMAL(30, 8)", "price::text").in_digits(),
            column("tags", "ARRAY<STRING>", "tags"),
            column("numbers", "ARRAY<BIGINT>", "numbers"),
            column("home", "ROW<`street` STRING, `number` INT>", "home"),
            column("attributes", "MAP<STRING, STRING>", "hstore_to_json(attributes)").debezium(
                "attributes",
                "STRING",
                "'{\"nothing\":null,\"k\":\"' || (attributes -> 'k') || '\"}'",
            ),
            column("code", "STRING", "code"),
            column("address", "STRING", "host(address)"),
            // Up to three decimals are milliseconds to Debezium, as they are to Flink.
            column("stamp", "BIGINT", concat!(micros!("stamp"), "::text"))
                .debezium("stamp", "TIMESTAMP(3)", "to_char(stamp, 'YYYY-MM-DD HH24:MI:SS.MS')")
                .in_digits(),
            column("clock", "BIGINT", concat!(micros!("clock"), "::text"))
                .debezium("clock", "INT", "(extract(epoch FROM clock) * 1000)::int::text")
                .in_digits(),
        ],
        last: "INSERT INTO kinds (id, code) VALUES (-1, 'end')",
        mark: Mark {
            column: 6,
            value: "end ",
        },
    },
];

pub const TOTALS: [Total; 2] = [
    Total {
        name: "orders_by_state",
        of: "orders",
        columns: "`state` STRING, `number` BIGINT, `created` BIGINT, `highest` INT",
        select: "COALESCE(`state`, ''), COUNT(*), COUNT(`created`), MAX(`id`)",
        by: "COALESCE(`state`, '')",
        expected: "SELECT json_build_object('state', coalesce(state::text, ''), 'number', count(*), 'created', count(created), \
                   'highest', max(id)) AS row FROM orders GROUP BY coalesce(state::text, '')",
        mark: "end",
    },
    Total {
        name: "accounts_by_note",
        of: "accounts",
        columns: "`note` STRING, `number` BIGINT, `balance` STRING",
        select: "COALESCE(`note`, ''), COUNT(*), CAST(SUM(`balance`) AS STRING)",
        by: "COALESCE(`note`, '')",
        expected: "SELECT json_build_object('note', coalesce(note, ''), 'number', count(*), 'balance', sum(balance)::text) AS row \
                   FROM accounts GROUP BY coalesce(note, '')",
        mark: "end",
    },
];

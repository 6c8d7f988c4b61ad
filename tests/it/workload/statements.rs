//! The statements of the workload, from a seed.

use fastrand::Rng;

/// A statement, and how many changes it is.
pub struct Statement {
    pub sql: String,
    /// Changes of each of its rows; 0 where it is rolled back.
    pub each: u64,
    /// Changes of it as a whole.
    pub whole: u64,
}

impl Statement {
    /// No change.
    pub fn silent(sql: &str) -> Self {
        Statement::rows(sql.to_owned(), 0)
    }

    /// One change, whatever the number of rows.
    pub fn once(sql: &str) -> Self {
        Statement {
            sql: sql.to_owned(),
            each: 0,
            whole: 1,
        }
    }

    /// So many changes a row.
    pub fn rows(sql: String, each: u64) -> Self {
        Statement { sql, each, whole: 0 }
    }

    pub fn changes(&self, rows: u64) -> u64 {
        self.each * rows + self.whole
    }
}

/// What one connection does. Each has its own rows.
pub struct Statements {
    pub rng: Rng,
    pub connection: u32,
    pub serial: u32,
}

impl Statements {
    pub fn statement(&mut self, out: &mut Vec<Statement>) {
        let table = self.rng.usize(..5);
        match self.rng.u32(..100) {
            0..45 => self.insert(table, out),
            45..80 => self.update(table, out),
            80..90 => self.delete(table, out),
            _ => self.change_key(table, out),
        }
    }

    /// Ids of this connection: the connections' own residues modulo 16.
    fn next_id(&mut self) -> u32 {
        self.serial += 1;
        self.serial * 16 + self.connection
    }

    fn some_id(&mut self) -> u32 {
        self.rng.u32(1..=self.serial.max(1)) * 16 + self.connection
    }

    fn or_null(&mut self, value: String) -> String {
        if self.rng.u32(..6) == 0 {
            "NULL".to_owned()
        } else {
            value
        }
    }

    fn word(&mut self) -> String {
        const WORDS: [&str; 8] = [
            "",
            "ferry",
            "Fähre",
            "渡し船",
            "it''s",
            "tab\there",
            "\u{1f6a2}",
            "a\\b",
        ];
        let word = WORDS[self.rng.usize(..WORDS.len())];
        format!("'{word}'")
    }

    fn timestamp(&mut self) -> String {
        let micros = self.rng.i64(-2_000_000_000_000_000..4_000_000_000_000_000);
        format!("(timestamp '2000-01-01' + {micros} * interval '1 microsecond')")
    }

    fn timestamptz(&mut self) -> String {
        format!("({} AT TIME ZONE 'UTC')", self.timestamp())
    }

    pub fn insert(&mut self, table: usize, out: &mut Vec<Statement>) {
        let id = self.next_id();
        let sql = match table {
            0 => {
                // Many rows of one statement share all but their ordinal.
                let rows = self.rng.u32(1..20);
                self.serial += rows;
                let (balance, active, note) = (self.money(), self.boolean(), self.word());
                let (note, opened) = (self.or_null(note), self.timestamptz());
                format!(
                    "INSERT INTO accounts SELECT {id} + 16 * n, 'owner ' || n, {balance}, {active}, {opened}, {note} \
                     FROM generate_series(0, {rows} - 1) n"
                )
            }
            1 => {
                let (amount, state, created) = (self.numeric(), self.state(), self.timestamp());
                let created = self.or_null(created);
                let (day, micros) = (self.rng.i32(-100_000..100_000), self.rng.u64(..86_400_000_000));
                format!(
                    "INSERT INTO orders VALUES ('r{}', {id}, {amount}, {state}, {created}, date '2000-01-01' + {day}, \
                     time '00:00' + {micros} * interval '1 microsecond')",
                    id % 7
                )
            }
            2 => {
                let size = if self.rng.u32(..4) == 0 {
                    self.rng.u32(3_000..20_000)
                } else {
                    self.rng.u32(..50)
                };
                let meta = self.or_null(format!("'{{\"n\": {id}, \"a\": [1, null, \"ü\"]}}'"));
                let raw = self.or_null(format!("decode('{:08x}00ff', 'hex')", self.rng.clone().u32(..)));
                let (ratio, small) = (self.eighth(), self.eighth());
                format!(
                    "INSERT INTO documents VALUES ({}, repeat('{}', {size}), {meta}, {raw}, {ratio}, {small}, 0)",
                    uuid(id),
                    char::from(b'a' + self.rng.u8(..26))
                )
            }
            3 => {
                let (kind, happened) = (self.word(), self.timestamptz());
                let (kind, happened) = (self.or_null(kind), self.or_null(happened));
                let payload = self.or_null(format!("'{{\"a\":{id},  \"a\":12345678901234567890}}'"));
                format!(
                    "INSERT INTO events VALUES ({}, {kind}, {happened}, {payload})",
                    self.connection
                )
            }
            _ => {
                let (size, first) = (self.rng.i32(..), self.rng.i16(..));
                let (size, first) = (
                    self.or_null(size.to_string()),
                    self.or_null(format!("'{first}'::smallint")),
                );
                format!(
                    "INSERT INTO settings VALUES ('k{}', {size}, {first}, {id}) \
                     ON CONFLICT (\"Key name\") DO UPDATE SET \"größe\" = EXCLUDED.\"größe\"",
                    self.settings_key()
                )
            }
        };
        out.push(Statement::rows(sql, 1));
    }

    fn update(&mut self, table: usize, out: &mut Vec<Statement>) {
        let id = self.some_id();
        let sql = match table {
            0 => {
                let (balance, note) = (self.money(), self.word());
                let note = self.or_null(note);
                format!(
                    "UPDATE accounts SET balance = {balance}, note = {note} \
                     WHERE id BETWEEN {id} AND {id} + 80 AND id % 16 = {}",
                    self.connection
                )
            }
            1 => {
                let (amount, state) = (self.numeric(), self.state());
                let state = self.or_null(state);
                format!(
                    "UPDATE orders SET amount = {amount}, state = {state} WHERE region = 'r{}' AND id = {id}",
                    id % 7
                )
            }
            // Leaves the large value alone.
            2 => format!("UPDATE documents SET version = version + 1 WHERE id = {}", uuid(id)),
            3 => {
                let kind = self.word();
                format!(
                    "UPDATE events SET kind = {kind} WHERE ctid = (SELECT ctid FROM events WHERE connection = {} \
                     OFFSET {} LIMIT 1)",
                    self.connection,
                    id % 20
                )
            }
            _ => {
                let key = self.settings_key();
                format!("UPDATE settings SET \"order-id\" = NULL WHERE \"Key name\" = 'k{key}'")
            }
        };
        out.push(Statement::rows(sql, 1));
    }

    fn delete(&mut self, table: usize, out: &mut Vec<Statement>) {
        let id = self.some_id();
        let sql = match table {
            0 => format!(
                "DELETE FROM accounts WHERE id BETWEEN {id} AND {id} + 32 AND id % 16 = {}",
                self.connection
            ),
            1 => format!("DELETE FROM orders WHERE region = 'r{}' AND id = {id}", id % 7),
            2 => format!("DELETE FROM documents WHERE id = {}", uuid(id)),
            3 => format!(
                "DELETE FROM events WHERE ctid = (SELECT ctid FROM events WHERE connection = {} LIMIT 1)",
                self.connection
            ),
            _ => format!("DELETE FROM settings WHERE \"Key name\" = 'k{}'", self.settings_key()),
        };
        out.push(Statement::rows(sql, 1));
    }

    /// A new key is a delete and a create.
    fn change_key(&mut self, table: usize, out: &mut Vec<Statement>) {
        let (id, new) = (self.some_id(), self.next_id());
        let sql = match table {
            0 => format!("UPDATE accounts SET id = {new} WHERE id = {id}"),
            1 => format!(
                "UPDATE orders SET id = {new}, region = 'r{}' WHERE region = 'r{}' AND id = {id}",
                new % 7,
                id % 7
            ),
            2 => format!("UPDATE documents SET id = {} WHERE id = {}", uuid(new), uuid(id)),
            _ => return self.insert(table, out),
        };
        out.push(Statement::rows(sql, 2));
    }

    fn settings_key(&mut self) -> u32 {
        self.rng.u32(..50) * 16 + self.connection
    }

    fn money(&mut self) -> String {
        let cents = self.rng.i64(-99_999_999_999..99_999_999_999);
        self.or_null(format!(
            "{}{}.{:02}",
            if cents < 0 { "-" } else { "" },
            cents.abs() / 100,
            cents.abs() % 100
        ))
    }

    fn numeric(&mut self) -> String {
        let digits = self.rng.usize(1..40);
        let number: String = (0..digits).map(|_| char::from(b'0' + self.rng.u8(..10))).collect();
        let scale = self.rng.usize(..15);
        match self.rng.u32(..20) {
            0 => "'NaN'".to_owned(),
            1 => "NULL".to_owned(),
            2 => "0.000".to_owned(),
            _ => format!("{number}.{:0scale$}", self.rng.u32(..10)),
        }
    }

    /// Exact in either float, and printed alike by every server.
    fn eighth(&mut self) -> String {
        let n = self.rng.i32(-8000..8000);
        match self.rng.u32(..20) {
            0 => "'NaN'".to_owned(),
            1 => "'-Infinity'".to_owned(),
            2 => "NULL".to_owned(),
            _ => format!("{}", f64::from(n) / 8.0),
        }
    }

    fn boolean(&mut self) -> String {
        let value = self.rng.bool().to_string();
        self.or_null(value)
    }

    fn state(&mut self) -> String {
        format!("'{}'", ["new", "paid", "sent", "größer"][self.rng.usize(..4)])
    }
}

fn uuid(id: u32) -> String {
    format!("'{id:08x}-1234-4abc-8def-0123456789ab'")
}

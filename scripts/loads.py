"""What the benchmark lets Postgres write into its log: tables, changes, and how many of them are published."""

from measuring import COLUMNS, rows_between

FIRST = 1_000_000


class Load:
    """`rows` is its usual size; `changes` gives the statements for any."""

    def __init__(self, title, rows, tables, changes, unit="rows of 196 bytes"):
        self.title, self.rows, self.tables, self.changes = title, rows, tables, changes
        self.unit = unit

    def prepare(self, server):
        server.sql(self.tables)

    def run(self, server, rows):
        """Makes the changes; the end of the log."""
        server.sql(self.changes(rows))
        server.sql("CHECKPOINT")
        return server.sql("SELECT pg_current_wal_lsn()")


def batches(rows, per_transaction, statement):
    """A statement for each batch of ids, `$first` to `$last`, each a transaction of its own."""
    filled = statement.replace("$first", "start").replace("$last", f"least(start + {per_transaction}, {FIRST + rows}) - 1")
    return f"""DO $$ BEGIN
        FOR start IN {FIRST} .. {FIRST + rows - 1} BY {per_transaction} LOOP {filled}; COMMIT; END LOOP;
    END $$"""


INSERT = f"INSERT INTO rows {rows_between('$first', '$last')}"
ONE_TABLE = f"CREATE TABLE rows ({COLUMNS}); CREATE PUBLICATION bench FOR TABLE rows"


def many_tables(count):
    """Rows go to one table after the other, a hundred a transaction."""
    tables = f"""DO $$ BEGIN FOR n IN 1 .. {count} LOOP EXECUTE format('CREATE TABLE rows_%s ({COLUMNS})', n); END LOOP; END $$;
        CREATE PUBLICATION bench FOR ALL TABLES"""
    insert = rows_between("$id", "$id").replace("'", "''").replace("%", "%%").replace("$id", "%s")
    changes = f"""DO $$ BEGIN
        FOR n IN 0 .. $batches - 1 LOOP
            EXECUTE format('INSERT INTO rows_%s {insert}', n % {count} + 1, {FIRST} + n * 100, {FIRST} + n * 100 + 99); COMMIT;
        END LOOP;
    END $$"""
    return tables, lambda rows: changes.replace("$batches", str(rows // 100))


def savepoints(rows):
    """One transaction; every other thousand rows are rolled back, so that it is twice as long as what is published of it."""
    filled = INSERT.replace("$first", "start").replace("$last", "start + 999")
    thrown = filled.replace("start", f"(start + {rows})")
    return f"""DO $$ BEGIN
        FOR start IN {FIRST} .. {FIRST + rows - 1} BY 1000 LOOP
            {filled};
            BEGIN {thrown}; RAISE EXCEPTION 'back'; EXCEPTION WHEN raise_exception THEN NULL; END;
        END LOOP;
    END $$"""


WIDE = ", ".join(f"c{n} int DEFAULT {n}" for n in range(1, 200))
LOADS = {
    "1000": Load("1,000 rows a transaction", 1_000_000, ONE_TABLE, lambda rows: batches(rows, 1_000, INSERT)),
    "10": Load("10 rows a transaction", 1_000_000, ONE_TABLE, lambda rows: batches(rows, 10, INSERT)),
    "1": Load("1 row a transaction", 300_000, ONE_TABLE, lambda rows: batches(rows, 1, INSERT)),
    "one": Load("one transaction", 1_000_000, ONE_TABLE, lambda rows: batches(rows, rows, INSERT)),
    "savepoints": Load("one transaction, of which savepoints roll half back", 500_000, ONE_TABLE, savepoints),
    "wide": Load("200 columns", 100_000, f"CREATE TABLE rows (id bigint PRIMARY KEY, {WIDE}); CREATE PUBLICATION bench FOR TABLE rows",
                 lambda rows: batches(rows, 1_000, "INSERT INTO rows (id) SELECT id FROM generate_series($first, $last) id"),
                 unit="rows of 200 integers"),
    "large": Load("10 kB a row", 50_000, "CREATE TABLE rows (id bigint PRIMARY KEY, body text); "
                  "ALTER TABLE rows ALTER body SET STORAGE EXTERNAL; CREATE PUBLICATION bench FOR TABLE rows",
                  lambda rows: batches(rows, 100, "INSERT INTO rows SELECT id, repeat(md5(id::text), 320) "
                                                  "FROM generate_series($first, $last) id"), unit="rows of 10 kB"),
    "full": Load("updates under REPLICA IDENTITY FULL, 1,000 a transaction", 500_000, ONE_TABLE + "; ALTER TABLE rows REPLICA IDENTITY FULL",
                 lambda rows: batches(rows // 2, 1_000, INSERT) + "; "
                 + batches(rows // 2, 1_000, "UPDATE rows SET account = account + 1 WHERE id BETWEEN $first AND $last"),
                 unit="changes of rows of 196 bytes, half of them updates with the old row"),
    "100-tables": Load("100 tables, 100 rows a transaction", 500_000, *many_tables(100)),
    "1000-tables": Load("1,000 tables, 100 rows a transaction", 500_000, *many_tables(1_000)),
}

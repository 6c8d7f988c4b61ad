"""The reader finds what is wrong: each fault made by hand, and a good run in which it finds none."""

import io
import struct
import unittest

import fastavro
import replay

TOPIC = "shop.public.t"
KEY = {"type": "record", "name": "Key", "namespace": TOPIC, "fields": [{"name": "id", "type": "int"}]}
VALUE = {
    "type": "record",
    "name": "Value",
    "namespace": TOPIC,
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "gr_u00F6", "walferry.name": "grö", "type": ["null", "string"], "default": None},
        {
            "name": "price",
            "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}],
            "default": None,
        },
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": TOPIC,
    "fields": [
        {"name": "before", "type": ["null", VALUE], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "fields": [{"name": "commit_lsn", "type": "long"}, {"name": "ordinal", "type": "long"}],
            },
        },
        {"name": "op", "type": "string"},
        {"name": "unchanged", "type": {"type": "array", "items": "string"}},
    ],
}


class FakeSchemas(replay.Schemas):
    def __init__(self):
        self.known = {1: (fastavro.parse_schema(KEY), KEY), 2: (fastavro.parse_schema(ENVELOPE), ENVELOPE)}


def encode(schema_id, schema, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\0" + struct.pack(">I", schema_id) + out.getvalue()


def row(identifier, name="x", price=b"\x04\xd2"):
    return None if identifier is None else {"id": identifier, "gr_u00F6": name, "price": price}


def event(op, position, before=None, after=None, unchanged=(), partition=0):
    key = (before or after or {}).get("id")
    value = {
        "before": before,
        "after": after,
        "source": {"commit_lsn": position[0], "ordinal": position[1]},
        "op": op,
        "unchanged": list(unchanged),
    }
    return (partition, None if key is None else encode(1, KEY, {"id": key}), encode(2, ENVELOPE, value))


def tombstone(identifier, partition=0):
    return (partition, encode(1, KEY, {"id": identifier}), None)


def judge(*records):
    numbered = [(TOPIC, partition, offset, key, value, []) for offset, (partition, key, value) in enumerate(records)]
    return replay.replay(numbered, [TOPIC], FakeSchemas(), with_events=True)


class Replay(unittest.TestCase):
    def test_a_good_run_has_no_fault_and_the_rows_of_postgres(self):
        found = judge(
            event("c", (10, 0), after=row(1, "a")),
            event("c", (10, 1), after=row(2, None, None)),
            event("u", (20, 0), after=row(1, None, b"\xff"), unchanged=["grö"]),
            event("d", (30, 0), before=row(2)),
            tombstone(2),
        )
        self.assertEqual(found["faults"], {})
        self.assertEqual((found["changes"], found["duplicates"], found["transactions"]), (4, 0, 3))
        self.assertEqual(found["topics"][TOPIC]["rows"], [{"id": "1", "grö": "a", "price": "-0.01"}])

    def test_a_changed_key_moves_what_was_not_sent(self):
        found = judge(
            event("c", (10, 0), after=row(1, "a")),
            event("d", (20, 0), before=row(1, None)),
            tombstone(1),
            event("c", (20, 1), after=row(2, None), unchanged=["grö"]),
        )
        self.assertEqual(found["faults"], {})
        self.assertEqual(found["topics"][TOPIC]["rows"], [{"id": "2", "grö": "a", "price": "12.34"}])

    def test_a_truncate_empties_the_table(self):
        found = judge(event("c", (10, 0), after=row(1)), event("t", (20, 0)))
        self.assertEqual((found["faults"], found["topics"][TOPIC]["rows"]), ({}, []))

    def test_positions_are_unsigned(self):
        found = judge(event("c", (2**63 - 1, 0), after=row(1)), event("u", (-(2**63), 0), after=row(1)))
        self.assertEqual(found["faults"], {})
        self.assertEqual(found["events"][1]["commit_lsn"], "80000000/0")

    def test_a_repeat_is_counted_and_is_no_fault(self):
        one, two = event("c", (10, 0), after=row(1)), event("u", (20, 0), after=row(1, "b"))
        found = judge(one, two, one, two)
        self.assertEqual((found["faults"], found["duplicates"], found["changes"]), ({}, 2, 2))

    def test_a_repeat_with_other_content_is_a_fault(self):
        found = judge(event("c", (10, 0), after=row(1, "a")), event("c", (10, 0), after=row(1, "b")))
        self.assertEqual(found["faults"], {"repeats_that_differ": 1})

    def test_a_missing_ordinal_is_a_gap(self):
        found = judge(event("c", (10, 0), after=row(1)), event("c", (10, 2), after=row(2)))
        self.assertEqual(found["faults"], {"gaps": 1})

    def test_a_missing_first_change_is_a_gap(self):
        self.assertEqual(judge(event("c", (10, 1), after=row(1)))["faults"], {"gaps": 1})

    def test_an_older_position_after_a_newer_one_is_a_fault(self):
        found = judge(event("c", (20, 0), after=row(1)), event("c", (10, 0), after=row(2)))
        self.assertEqual(found["faults"], {"order_in_partition": 1})

    def test_partitions_have_no_order_between_them_but_a_key_has(self):
        found = judge(event("c", (20, 0), after=row(1)), event("c", (10, 0), after=row(2), partition=1))
        self.assertEqual(found["faults"], {})
        found = judge(event("u", (20, 0), after=row(1)), event("c", (10, 0), after=row(1), partition=1))
        self.assertEqual(found["faults"], {"order_of_key": 1})

    def test_a_change_of_a_row_that_is_not_there_is_a_fault(self):
        found = judge(
            event("u", (10, 0), after=row(1)),
            event("u", (20, 0), after=row(2), unchanged=["grö"]),
            event("d", (30, 0), before=row(3)),
            event("c", (40, 0), after=row(1)),
        )
        self.assertEqual(
            found["faults"],
            {"updates_of_nothing": 2, "unchanged_of_nothing": 1, "deletes_of_nothing": 1, "creates_over_a_row": 1},
        )

    def test_a_tombstone_belongs_to_the_delete_before_it(self):
        found = judge(event("c", (10, 0), after=row(1)), tombstone(1))
        self.assertEqual(found["faults"], {"tombstones_without_their_delete": 1})
        found = judge(event("c", (10, 0), after=row(1)), event("d", (20, 0), before=row(1)), tombstone(1))
        self.assertEqual(found["faults"], {})
        self.assertNotIn("deletes_without_tombstone", found["topics"][TOPIC]["counts"])

    def test_bytes_left_over_are_an_error(self):
        partition, key, value = event("c", (10, 0), after=row(1))
        with self.assertRaisesRegex(ValueError, "left over"):
            judge((partition, key, value + b"\0"))


class Rendering(unittest.TestCase):
    def test_values_print_as_postgres_prints_them(self):
        def shown(schema, value):
            return replay.renderer(schema)(value)

        self.assertEqual(shown("boolean", True), "t")
        self.assertEqual(shown("bytes", b"\x00\xff"), "\\x00ff")
        self.assertEqual(shown("double", 0.1), "0.1")
        self.assertEqual(shown("double", -0.0), "-0")
        self.assertEqual(shown("double", float("-inf")), "-Infinity")
        self.assertEqual(shown("float", struct.unpack("f", struct.pack("f", 0.1))[0]), "0.1")
        self.assertEqual(shown({"type": "int", "logicalType": "date"}, -1), "1969-12-31")
        self.assertEqual(shown({"type": "int", "logicalType": "date"}, 2**31 - 1), "infinity")
        self.assertEqual(shown({"type": "long", "logicalType": "time-micros"}, 86_400_000_000), "24:00:00")
        self.assertEqual(shown({"type": "long", "logicalType": "timestamp-micros"}, -1), "1969-12-31 23:59:59.999999+00")
        self.assertEqual(
            shown({"type": "long", "logicalType": "local-timestamp-micros"}, 500_000), "1970-01-01 00:00:00.5"
        )
        decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
        self.assertEqual(shown(decimal, b"\x00"), "0.00")
        self.assertEqual(shown(["null", decimal], None), None)


class SpellOut(unittest.TestCase):
    def test_a_row_is_rendered_with_its_headers_and_a_tombstone_has_no_value(self):
        schemas = FakeSchemas()
        schemas.known[3] = (fastavro.parse_schema(VALUE), VALUE)
        key = encode(1, KEY, {"id": 7})
        records = [
            (TOPIC, 0, 4, key, encode(3, VALUE, row(7, None)), [("walferry.op", b"c")]),
            (TOPIC, 0, 5, key, None, [("walferry.op", b"d")]),
        ]
        first, second = replay.spell_out(records, schemas)
        self.assertEqual(first["value"], {"id": "7", "grö": None, "price": "12.34"})
        self.assertEqual(first["key"], {"id": "7"})
        self.assertEqual(first["headers"], {"walferry.op": "c"})
        self.assertEqual(first["avro"], "0e00020404d2")
        self.assertEqual((second["offset"], second["key"], second["value"]), (5, {"id": "7"}, None))


if __name__ == "__main__":
    unittest.main()

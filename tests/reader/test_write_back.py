"""Avro values become the text that docs/records.md says they mean."""

import unittest

import write_back

PAIR = {
    "type": "record",
    "name": "pair",
    "namespace": "shop.public.t.public",
    "fields": [
        {"name": "a", "type": ["null", "string"], "default": None},
        {"name": "b", "type": ["null", {"type": "array", "items": ["null", "int"]}], "default": None},
    ],
}


def written(schema, value, delimiter=","):
    return write_back.Writers([schema, PAIR]).of(schema, delimiter)(value)


class Scalars(unittest.TestCase):
    def test_dates_of_every_era(self):
        date = {"type": "int", "logicalType": "date"}
        for days, text in [
            (0, "1970-01-01"),
            (-719_162, "0001-01-01"),
            (-719_163, "0001-12-31 BC"),
            (-2_440_550, "4713-01-01 BC"),
            (-141_427, "1582-10-15"),
            (-141_428, "1582-10-14"),
            (2_932_897, "10000-01-01"),
            (2_145_042_905, "5874897-12-31"),
            (2**31 - 1, "infinity"),
            (-(2**31), "-infinity"),
        ]:
            self.assertEqual(written(date, days), text)

    def test_timestamps_of_every_era(self):
        local = {"type": "long", "logicalType": "local-timestamp-micros"}
        zoned = {"type": "long", "logicalType": "timestamp-micros"}
        for micros, text in [
            (-1, "1969-12-31 23:59:59.999999"),
            (-63_517_780_800_000_000, "0044-03-15 12:00:00 BC"),
            (2**63 - 2, "294247-01-10 04:00:54.775806"),
            (2**63 - 1, "infinity"),
        ]:
            self.assertEqual(written(local, micros), text)
        self.assertEqual(written(zoned, -63_517_780_800_000_000), "0044-03-15 12:00:00+00 BC")
        self.assertEqual(written({"type": "long", "logicalType": "time-micros"}, 86_400_000_000), "24:00:00")

    def test_decimals_have_their_scale(self):
        def of(number, scale):
            data = number.to_bytes(8, "big", signed=True)
            return written({"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": scale}, data)

        self.assertEqual(of(5, 2), "0.05")
        self.assertEqual(of(-12345, 2), "-123.45")
        self.assertEqual(of(-7, 0), "-7")
        self.assertEqual(of(1, 5), "0.00001")

    def test_floats_keep_every_bit(self):
        for value, text in [
            (-0.0, "-0.0"),
            (5e-324, "5e-324"),
            (float("nan"), "NaN"),
            (float("-inf"), "-Infinity"),
            (0.1, "0.1"),
        ]:
            self.assertEqual(written("double", value), text)


class Containers(unittest.TestCase):
    def test_arrays_are_quoted(self):
        strings = {"type": "array", "items": ["null", "string"]}
        self.assertEqual(written(strings, ["a", None, "NULL", "", 'b"\\']), '{"a",NULL,"NULL","","b\\"\\\\"}')
        self.assertEqual(written(strings, []), "{}")
        self.assertEqual(written(strings, ["(1,1),(0,0)", "(2,2),(0,0)"], ";"), '{"(1,1),(0,0)";"(2,2),(0,0)"}')

    def test_records_may_be_named_and_nested(self):
        value = {"a": 'x "y" \\z', "b": [1, None]}
        self.assertEqual(written("shop.public.t.public.pair", value), '("x ""y"" \\\\z","{""1"",NULL}")')
        self.assertEqual(written(PAIR, {"a": None, "b": None}), "(,)")
        self.assertEqual(written(PAIR, {"a": "", "b": []}), '("","{}")')

    def test_maps_and_vectors(self):
        self.assertEqual(written({"type": "map", "values": ["null", "string"]}, {'a"': None, "b": ""}), '"a\\""=>NULL, "b"=>""')
        self.assertEqual(written({"type": "array", "items": "float"}, [1.0, -0.5]), "[1.0,-0.5]")

    def test_null_is_not_a_text(self):
        self.assertIsNone(written(["null", "string"], None))
        self.assertEqual(written(["null", "string"], "NULL"), "NULL")


class Records(unittest.TestCase):
    def test_both_rows_of_an_envelope_are_written(self):
        value = {**PAIR, "name": "Value", "namespace": "shop.public.t", "walferry.table": "t"}
        fields = [
            {"name": "before", "type": ["null", value], "default": None},
            {"name": "after", "type": ["null", "shop.public.t.Value"], "default": None},
        ]
        table = write_back.Table({"type": "record", "name": "Envelope", "namespace": "shop.public.t", "fields": fields}, [])
        old, new = {"a": "x", "b": [1]}, {"a": None, "b": []}
        self.assertEqual(table.columns, ["a", "b"])
        self.assertEqual(table.rows({"before": old, "after": new}), [["x", '{"1"}'], [None, "{}"]])
        self.assertEqual(table.rows({"before": None, "after": new}), [[None, "{}"]])
        self.assertEqual(write_back.Table(value, []).rows(new), [[None, "{}"]])


if __name__ == "__main__":
    unittest.main()

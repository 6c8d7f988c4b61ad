#!/usr/bin/env python3
"""Avro values back to the text that Postgres's own input functions take, by the mapping of docs/records.md alone.

Reads topics to their present end and prints one JSON object: by topic, the columns and every row that the records hold (old
and new ones of the debezium envelope), each value as text or null. Nothing is known of a column but what its Avro type
says, with one exception: between two elements of an array of boxes stands a semicolon, and no schema says which arrays
those are.
"""

import argparse
import datetime
import json
import sys

import replay

# The Gregorian calendar repeats itself after so many days, which are 400 years.
CYCLE_DAYS, CYCLE_YEARS = 146_097, 400


def civil(days):
    """Year, month and day (year 0 is 1 BC) of a day since 1970-01-01, on the proleptic Gregorian calendar."""
    cycle, rest = divmod(days, CYCLE_DAYS)
    day = datetime.date(1970, 1, 1) + datetime.timedelta(days=rest)
    return day.year + CYCLE_YEARS * cycle, day.month, day.day


def day_and_era(days):
    year, month, day = civil(days)
    shown = year if year > 0 else 1 - year
    return f"{shown:04d}-{month:02d}-{day:02d}", "" if year > 0 else " BC"


def date(days):
    if days in (replay.INT_MIN, replay.INT_MAX):
        return "infinity" if days > 0 else "-infinity"
    return "".join(day_and_era(days))


def timestamp(micros, zone):
    if micros in (replay.LONG_MIN, replay.LONG_MAX):
        return "infinity" if micros > 0 else "-infinity"
    days, rest = divmod(micros, 86_400_000_000)
    day, era = day_and_era(days)
    return f"{day} {replay.clock(rest)}{zone}{era}"


def floating(value):
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def decimal(unscaled, scale):
    number = int.from_bytes(unscaled, "big", signed=True)
    digits = str(abs(number)).rjust(scale + 1, "0")
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return ("-" if number < 0 else "") + whole + ("." + fraction if fraction else "")


def quoted(text):
    """Within an array or an hstore."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def array(items, delimiter):
    return "{" + delimiter.join("NULL" if item is None else quoted(item) for item in items) + "}"


def row(attributes):
    """An attribute that is NULL is nothing at all."""
    shown = ("" if a is None else '"' + a.replace("\\", "\\\\").replace('"', '""') + '"' for a in attributes)
    return "(" + ",".join(shown) + ")"


def hstore(pairs):
    return ", ".join(f"{quoted(k)}=>{'NULL' if v is None else quoted(v)}" for k, v in pairs.items())


class Writers:
    """The functions that write values of a schema, by Avro type."""

    def __init__(self, schema):
        self.records = {}
        self.collect(schema)

    def collect(self, schema):
        if isinstance(schema, list):
            for branch in schema:
                self.collect(branch)
        elif isinstance(schema, dict):
            if schema.get("type") == "record":
                self.records[f"{schema['namespace']}.{schema['name']}" if "namespace" in schema else schema["name"]] = schema
                for field in schema["fields"]:
                    self.collect(field["type"])
            elif schema.get("type") == "array":
                self.collect(schema["items"])

    def of(self, schema, delimiter=","):
        """None stays None: NULL is not a text."""
        if isinstance(schema, list):
            assert len(schema) == 2 and schema[0] == "null", schema
            inner = self.of(schema[1], delimiter)
            return lambda value: None if value is None else inner(value)
        if isinstance(schema, str) and schema in self.records:
            schema = self.records[schema]
        if isinstance(schema, str):
            schema = {"type": schema}
        kind, logical = schema["type"], schema.get("logicalType")
        if kind == "record":
            fields = [(field["name"], self.of(field["type"])) for field in schema["fields"]]
            return lambda value: row(write(value[name]) for name, write in fields)
        if kind == "map":
            return hstore
        if kind == "array":
            if schema["items"] == "float":
                return lambda value: "[" + ",".join(map(floating, value)) + "]"
            item = self.of(schema["items"], delimiter)
            return lambda value: array(map(item, value), delimiter)
        if (kind, logical) == ("bytes", "decimal"):
            scale = schema["scale"]
            return lambda value: decimal(value, scale)
        return {
            ("boolean", None): lambda value: "true" if value else "false",
            ("int", None): str,
            ("long", None): str,
            ("float", None): floating,
            ("double", None): floating,
            ("string", None): str,
            ("string", "uuid"): str,
            ("bytes", None): lambda value: "\\x" + value.hex(),
            ("int", "date"): date,
            ("long", "time-micros"): replay.clock,
            ("long", "timestamp-micros"): lambda value: timestamp(value, "+00"),
            ("long", "local-timestamp-micros"): lambda value: timestamp(value, ""),
        }[kind, logical]


class Table:
    """A value's schema, compiled."""

    def __init__(self, schema, semicolons):
        self.envelope = schema["name"] == "Envelope"
        record = replay.find_record(schema, "Value")
        writers = Writers(schema)
        self.columns = [field.get("walferry.name", field["name"]) for field in record["fields"]]
        table = record["walferry.table"]
        self.writers = [
            (field["name"], writers.of(field["type"], ";" if f"{table}.{column}" in semicolons else ","))
            for column, field in zip(self.columns, record["fields"])
        ]

    def texts(self, row):
        return [write(row[name]) for name, write in self.writers]

    def rows(self, value):
        """The rows that a record holds: old and new of the debezium envelope, the row of the other."""
        held = (value["before"], value["after"]) if self.envelope else (value,)
        return [self.texts(row) for row in held if row is not None]


def write_back(records, schemas, semicolons):
    """By topic, the columns and the rows in order; NULL is None."""
    tables, topics = {}, {}
    for topic, _partition, _offset, _key, value, _headers in records:
        if value is None:
            continue
        decoded, schema = schemas.decode(value)
        table = tables.get(id(schema))
        if table is None:
            table = tables[id(schema)] = Table(schema, semicolons)
        found = topics.setdefault(topic, {"columns": table.columns, "rows": []})
        if found["columns"] != table.columns:
            raise ValueError(f"the columns of {topic} changed on the way")
        found["rows"].extend(table.rows(decoded))
    return topics


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--brokers", required=True, help="example: 127.0.0.1:9092")
    arguments.add_argument("--registry", required=True, help="example: http://127.0.0.1:8081/apis/ccompat/v7")
    arguments.add_argument("--timeout", type=float, default=30.0, help="seconds without a record before giving up")
    arguments.add_argument("--semicolons", default="", help="the columns that are arrays of boxes: table.column,…")
    arguments.add_argument("topics", nargs="+")
    options = arguments.parse_args()
    records = replay.read(options.brokers, options.topics, options.timeout)
    schemas = replay.Schemas(options.registry)
    json.dump(write_back(records, schemas, options.semicolons.split(",")), sys.stdout)


if __name__ == "__main__":
    main()

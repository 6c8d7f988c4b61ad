#!/usr/bin/env python3
"""An independent reader: what a consumer in another language makes of walferry's topics.

Reads each topic from its beginning to the end that it has at the start of the run, decodes Confluent's wire format with
the schemas that the registry gives for the ids in the records, checks order, repeats and gaps by position
(commit LSN, ordinal), and replays the Debezium envelope into tables. Prints one JSON object; exits 1 only when it cannot
read, never because of what it has read: judging is the caller's.

Values are rendered as the text that Postgres prints with TimeZone UTC, ISO dates and hex bytea.
"""

import argparse
import collections
import datetime
import decimal
import io
import json
import struct
import sys
import time
import urllib.request

import fastavro
import fastavro.read
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

# Raw values, rendered below: Python's dates end at the year 9999.
fastavro.read.LOGICAL_READERS.clear()

EPOCH = datetime.datetime(1970, 1, 1)
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
SAMPLES = 20


class Schemas:
    """Schemas by id, from the registry."""

    def __init__(self, url):
        self.url = url.rstrip("/")
        self.known = {}

    def get(self, schema_id):
        if schema_id not in self.known:
            with urllib.request.urlopen(f"{self.url}/schemas/ids/{schema_id}", timeout=30) as answer:
                text = json.load(answer)["schema"]
            self.known[schema_id] = (fastavro.parse_schema(json.loads(text)), json.loads(text))
        return self.known[schema_id]

    def decode(self, data):
        if len(data) < 5 or data[0] != 0:
            raise ValueError("not in Confluent's wire format")
        parsed, plain = self.get(struct.unpack(">I", data[1:5])[0])
        stream = io.BytesIO(data[5:])
        value = fastavro.schemaless_reader(stream, parsed)
        if stream.read(1):
            raise ValueError("bytes left over after the record")
        return value, plain


def two_digits(n):
    return f"{n:02d}"


def clock(micros):
    seconds, fraction = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = ":".join(map(two_digits, (hour, minute, second)))
    return text + (f".{fraction:06d}".rstrip("0") if fraction else "")


def timestamp(micros, suffix):
    if micros in (LONG_MIN, LONG_MAX):
        return "infinity" if micros > 0 else "-infinity"
    days, rest = divmod(micros, 86_400_000_000)
    try:
        day = EPOCH + datetime.timedelta(days=days)
    except OverflowError:
        return f"micros:{micros}"
    return f"{day.year:04d}-{day.month:02d}-{day.day:02d} {clock(rest)}{suffix}"


def date(days):
    if days in (INT_MIN, INT_MAX):
        return "infinity" if days > 0 else "-infinity"
    try:
        return (EPOCH + datetime.timedelta(days=days)).date().isoformat()
    except OverflowError:
        return f"days:{days}"


def floating(value, single):
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == int(value) and abs(value) < 1e15:
        return ("-" if str(value).startswith("-") else "") + str(abs(int(value)))
    if single:
        for digits in range(1, 10):
            text = f"{value:.{digits}g}"
            if struct.pack("f", float(text)) == struct.pack("f", value):
                return text
    return repr(value)


def renderer(schema):
    """The function that renders a value of this Avro type."""
    if isinstance(schema, list):
        inner = renderer(next(branch for branch in schema if branch != "null"))
        return lambda v: None if v is None else inner(v)
    if isinstance(schema, str):
        schema = {"type": schema}
    kind, logical = schema["type"], schema.get("logicalType")
    if isinstance(kind, (dict, list)):
        return renderer(kind)
    if logical == "decimal":
        scale = schema.get("scale", 0)
        context = decimal.Context(prec=2000)
        return lambda v: format(context.scaleb(decimal.Decimal(int.from_bytes(v, "big", signed=True)), -scale), "f")
    if logical == "date":
        return date
    if logical == "time-micros":
        return clock
    if logical == "timestamp-micros":
        return lambda v: timestamp(v, "+00")
    if logical == "local-timestamp-micros":
        return lambda v: timestamp(v, "")
    return {
        "boolean": lambda v: "t" if v else "f",
        "int": str,
        "long": str,
        "float": lambda v: floating(v, True),
        "double": lambda v: floating(v, False),
        "string": lambda v: v,
        "bytes": lambda v: "\\x" + v.hex(),
    }.get(kind, lambda v: json.dumps(v, sort_keys=True, default=str))


def find_record(schema, name):
    """The record that a field of the envelope holds: defined at its first use."""
    if isinstance(schema, list):
        for branch in schema:
            found = find_record(branch, name)
            if found:
                return found
    elif isinstance(schema, dict):
        if schema.get("type") == "record" and (name is None or schema["name"].rsplit(".", 1)[-1] == name):
            return schema
        for field in schema.get("fields", []):
            found = find_record(field["type"], name)
            if found:
                return found
    return None


class Renderers:
    """Avro field → (original column name, renderer), by record schema."""

    def __init__(self):
        self.known = {}

    def of(self, record):
        known = self.known.get(id(record))
        if known is None:
            known = {
                f["name"]: (f.get("walferry.name", f["name"]), renderer(f["type"])) for f in record["fields"]
            }
            self.known[id(record)] = known
        return known

    def row(self, record, value):
        columns = self.of(record)
        return {columns[name][0]: columns[name][1](v) for name, v in value.items()}


def unsigned(n):
    return n & (2**64 - 1)


class Findings:
    """Counts, with the first few of each kind spelt out."""

    def __init__(self):
        self.counts = collections.Counter()
        self.samples = collections.defaultdict(list)

    def add(self, kind, text):
        self.counts[kind] += 1
        if len(self.samples[kind]) < SAMPLES:
            self.samples[kind].append(text)


def lsn(n):
    return f"{n >> 32:X}/{n & 0xFFFFFFFF:X}"


def place(position):
    return f"({lsn(position[0])}, {position[1]})"


def read(brokers, topics, timeout, isolation="read_committed"):
    """Yields (topic, partition, offset, key, value, headers), each partition in order, up to the ends found first."""
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": "walferry-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.message.max.bytes": 16 * 1024 * 1024,
        }
    )
    try:
        ends = {}
        listed = consumer.list_topics(timeout=timeout).topics
        for topic in topics:
            if topic not in listed:
                raise SystemExit(f"topic {topic} does not exist")
            for partition in listed[topic].partitions:
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=timeout)
                if high > low:
                    ends[topic, partition] = high
        consumer.assign([TopicPartition(t, p, OFFSET_BEGINNING) for t, p in ends])
        heard = time.monotonic()
        while ends:
            # Waits its whole time for a batch that is not full: so a short one, many times.
            messages = consumer.consume(5000, 0.1)
            if messages:
                heard = time.monotonic()
            elif time.monotonic() - heard > timeout:
                raise SystemExit(f"nothing arrived for {timeout} s with {ends} still to come")
            for message in messages:
                at = (message.topic(), message.partition())
                if message.error():
                    if message.error().code() != KafkaError._PARTITION_EOF:
                        raise SystemExit(f"consumer: {message.error()}")
                    # What lies between the last record and the end are marks of transactions.
                    if message.offset() >= ends.get(at, message.offset() + 1):
                        del ends[at]
                    continue
                if at not in ends:
                    continue
                yield (*at, message.offset(), message.key(), message.value(), message.headers() or [])
                if message.offset() + 1 >= ends[at]:
                    del ends[at]
    finally:
        consumer.close()


class Event:
    __slots__ = ("position", "op", "key", "before", "after", "unchanged", "topic")

    def content(self):
        return (self.op, self.key, self.before, self.after, self.unchanged)


def decode_event(schemas, renderers, topic, key, value):
    event = Event()
    event.topic = topic
    event.key = None
    if key is not None:
        decoded, plain = schemas.decode(key)
        event.key = renderers.row(plain, decoded)
    record, plain = schemas.decode(value)
    row = find_record(plain, "Value")
    event.op = record["op"]
    event.before = None if record.get("before") is None else renderers.row(row, record["before"])
    event.after = None if record.get("after") is None else renderers.row(row, record["after"])
    # Names in `unchanged` are the columns' own.
    event.unchanged = sorted(record.get("unchanged") or [])
    source = record["source"]
    event.position = (unsigned(source["commit_lsn"]), unsigned(source["ordinal"]))
    return event


def fingerprint(row):
    return json.dumps(row, sort_keys=True)


class Table:
    """A topic replayed: by key, or, without keys, as a bag of rows."""

    def __init__(self):
        self.key_columns = None
        self.rows = {}
        # The row that the last delete removed, and where: a changed key moves what was not sent to the new key.
        self.removed = (None, None)
        self.bag = collections.Counter()

    def apply(self, event, findings):
        where = f"{event.topic} {place(event.position)} {event.op}"
        if event.op == "t":
            self.rows.clear()
            self.bag.clear()
            return
        if event.key is None:
            self.apply_without_key(event, findings, where)
            return
        self.key_columns = list(event.key)
        key = fingerprint(event.key)
        if event.op == "d":
            removed = self.rows.pop(key, None)
            if removed is None:
                findings.add("deletes_of_nothing", where)
            self.removed = (event.position, removed)
            return
        if event.after is None:
            findings.add("changes_without_after", where)
            return
        after = dict(event.after)
        old = source = self.rows.get(key)
        commit, ordinal = event.position
        if event.op == "c" and self.removed[0] == (commit, ordinal - 1):
            source = self.removed[1]
        for column in event.unchanged:
            if source is None or column not in source:
                findings.add("unchanged_of_nothing", f"{where} {column}")
            else:
                after[column] = source[column]
        if event.op == "c" and old is not None:
            findings.add("creates_over_a_row", where)
        if event.op == "u" and old is None:
            findings.add("updates_of_nothing", where)
        if any(after.get(column) != value for column, value in event.key.items()):
            findings.add("keys_that_differ_from_the_row", where)
        self.rows[key] = after

    def apply_without_key(self, event, findings, where):
        if event.op in ("u", "d"):
            old = fingerprint(event.before)
            if self.bag[old] <= 0:
                findings.add("deletes_of_nothing", where)
            self.bag[old] -= 1
        if event.op in ("c", "u", "r"):
            self.bag[fingerprint(event.after)] += 1

    def result(self):
        if self.key_columns is not None:
            rows = [self.rows[key] for key in self.rows]
        else:
            rows = [json.loads(row) for row, count in self.bag.items() for _ in range(count)]
        return sorted(rows, key=fingerprint)


def replay(records, topics, schemas, with_events=False):
    """Judges the records and replays them; what main prints."""
    renderers, findings = Renderers(), Findings()
    events = {}
    highest = {}
    newest_of_key = {}
    last_delete = {}
    counted = {topic: collections.Counter() for topic in topics}
    headers_seen = collections.Counter()
    for topic, partition, offset, key, value, headers in records:
        counts = counted[topic]
        counts["records"] += 1
        for name, _ in headers:
            headers_seen[name] += 1
        where = f"{topic}[{partition}]@{offset}"
        if value is None:
            counts["tombstones"] += 1
            if key is None or last_delete.get((topic, partition)) != key:
                findings.add("tombstones_without_their_delete", where)
            last_delete.pop((topic, partition), None)
            continue
        if (topic, partition) in last_delete:
            counts["deletes_without_tombstone"] += 1
            del last_delete[topic, partition]
        event = decode_event(schemas, renderers, topic, key, value)
        counts[f"op_{event.op}"] += 1
        if event.op == "d" and key is not None:
            last_delete[topic, partition] = key

        known = events.get(event.position)
        if known is not None:
            counts["duplicates"] += 1
            if known.topic != topic or known.content() != event.content():
                findings.add("repeats_that_differ", f"{where} {place(event.position)}")
            continue
        events[event.position] = event
        # A row that a snapshot found stands among changes of other keys that came since.
        before = highest.get((topic, partition))
        if event.op != "r":
            if before is not None and event.position <= before:
                findings.add("order_in_partition", f"{where}: {place(event.position)} after {place(before)}")
            else:
                highest[topic, partition] = event.position
        if key is not None:
            before = newest_of_key.get((topic, key))
            if before is not None and event.position <= before:
                findings.add("order_of_key", f"{where}: {place(event.position)} after {place(before)}")
            newest_of_key[topic, key] = event.position
    for topic, _ in last_delete:
        counted[topic]["deletes_without_tombstone"] += 1

    tables = {topic: Table() for topic in topics}
    expected, previous, transactions = 0, None, 0
    ordered = sorted(events)
    for position in ordered:
        commit, ordinal = position
        event = events[position]
        if event.op != "r":
            if commit != previous:
                previous, expected, transactions = commit, 0, transactions + 1
            if ordinal != expected:
                findings.add("gaps", f"{place(position)} where ordinal {expected} was due")
            expected = ordinal + 1
        if event.op != "m":
            tables[event.topic].apply(event, findings)

    result = {
        "records": sum(counts["records"] for counts in counted.values()),
        "changes": len(events),
        "duplicates": sum(counts["duplicates"] for counts in counted.values()),
        "transactions": transactions,
        "headers": dict(headers_seen),
        "faults": dict(findings.counts),
        "samples": dict(findings.samples),
        "topics": {
            topic: {"counts": dict(counted[topic]), "key": tables[topic].key_columns, "rows": tables[topic].result()}
            for topic in topics
        },
    }
    if with_events:
        result["events"] = [
            {
                "topic": events[p].topic,
                "commit_lsn": lsn(p[0]),
                "ordinal": p[1],
                "op": events[p].op,
                "key": events[p].key,
                "before": events[p].before,
                "after": events[p].after,
                "unchanged": events[p].unchanged,
            }
            for p in ordered
        ]
    return result


def plain(value):
    """JSON of any decoded value: bytes as the text that Postgres prints of them."""
    if isinstance(value, dict):
        return {name: plain(v) for name, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return "\\x" + value.hex() if isinstance(value, bytes) else value


def spell_out(records, schemas):
    """Each record as it came, judged by nothing: keys and flat rows rendered, other values as they are decoded."""
    renderers = Renderers()

    def decoded(data):
        if data is None:
            return None
        value, schema = schemas.decode(data)
        envelope = any(f["name"] == "op" for f in schema["fields"])
        return plain(value) if envelope else renderers.row(schema, value)

    return [
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "key": decoded(key),
            "value": decoded(value),
            "schema": None if value is None else schemas.get(struct.unpack(">I", value[1:5])[0])[1],
            "avro": None if value is None else value[5:].hex(),
            "headers": {name: None if v is None else v.decode() for name, v in headers},
        }
        for topic, partition, offset, key, value, headers in records
    ]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--brokers", required=True, help="example: 127.0.0.1:9092")
    arguments.add_argument("--registry", required=True, help="example: http://127.0.0.1:8081/apis/ccompat/v7")
    arguments.add_argument("--timeout", type=float, default=30.0, help="seconds without a record before giving up")
    arguments.add_argument("--events", action="store_true", help="print the decoded events, in order of position, too")
    arguments.add_argument("--records", action="store_true", help="print the records alone, as they came, not judged")
    arguments.add_argument("--uncommitted", action="store_true", help="read what was aborted too")
    arguments.add_argument("topics", nargs="+")
    options = arguments.parse_args()
    isolation = "read_uncommitted" if options.uncommitted else "read_committed"
    records = read(options.brokers, options.topics, options.timeout, isolation)
    schemas = Schemas(options.registry)
    if options.records:
        json.dump(spell_out(records, schemas), sys.stdout)
    else:
        json.dump(replay(records, options.topics, schemas, options.events), sys.stdout)


if __name__ == "__main__":
    main()

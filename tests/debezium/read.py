#!/usr/bin/env python3
"""Records and schemas of a pipeline's topics in the form of the golden files of tests/golden/debezium.

Reads every topic below a prefix from its beginning to its present end and decodes Confluent's wire format with the schemas that the
registry gives. Values stay as Avro has them (no logical type is applied), bytes as "0x…". What differs from run to run is made
symbolic: the prefix and the database are "corpus", a transaction id is tx1, tx2 … and an LSN lsn1, lsn2 … in the order in which the topic
names them, a time is "time". Times that contradict each other stay as they are, and so show.

Prints one JSON object, topic → {schemas, records}; with --out, writes a file for each topic instead. With --wait N, waits first until the
topic PREFIX.public.marker has N records.
"""

import argparse
import io
import json
import os
import struct
import sys
import time
import urllib.parse
import urllib.request

import fastavro
import fastavro.read
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

# Raw values: a logical type is one more thing that may differ, and it stands in the schema.
fastavro.read.LOGICAL_READERS.clear()


class Schemas:
    """Schemas by id, from the registry."""

    def __init__(self, url, prefix):
        self.url = url.rstrip("/")
        self.prefix = prefix
        self.known = {}

    def by_id(self, schema_id):
        if schema_id not in self.known:
            schema = self.whole(self.get(f"schemas/ids/{schema_id}"))
            common = json.loads(json.dumps(schema).replace(self.prefix + ".", "corpus."))
            self.known[schema_id] = (fastavro.parse_schema(schema), common)
        return self.known[schema_id]

    def get(self, path):
        with urllib.request.urlopen(f"{self.url}/{path}", timeout=30) as answer:
            return json.load(answer)

    def whole(self, answer):
        """The schema with those that it refers to (Apicurio's serialiser registers each record by itself) where they are first used."""
        referred = {}
        self.collect(answer, referred)
        return define(json.loads(answer["schema"]), referred)

    def collect(self, answer, referred):
        for reference in answer.get("references") or []:
            found = self.get(f"subjects/{urllib.parse.quote(reference['subject'], safe='')}/versions/{reference['version']}")
            referred[reference["name"]] = json.loads(found["schema"])
            self.collect(found, referred)

    def decode(self, data):
        if data is None:
            return None, None
        if len(data) < 5 or data[0] != 0:
            raise ValueError("not in Confluent's wire format")
        parsed, plain = self.by_id(struct.unpack(">I", data[1:5])[0])
        stream = io.BytesIO(data[5:])
        value = fastavro.schemaless_reader(stream, parsed)
        if stream.read(1):
            raise ValueError("bytes left over after the record")
        return plain, jsonable(value)


def define(schema, referred, namespace=""):
    """Puts each of these schemas in the place of its first use."""
    if isinstance(schema, str):
        full = schema if "." in schema or not namespace else f"{namespace}.{schema}"
        return define(referred.pop(full), referred, namespace) if full in referred else schema
    if isinstance(schema, list):
        return [define(part, referred, namespace) for part in schema]
    if isinstance(schema, dict):
        namespace = schema.get("namespace", namespace)
        return {
            name: define(part, referred, namespace) if name in ("type", "items", "values", "fields") else part
            for name, part in schema.items()
        }
    return schema


def jsonable(value):
    if isinstance(value, dict):
        return {name: jsonable(part) for name, part in value.items()}
    if isinstance(value, list):
        return [jsonable(part) for part in value]
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value


class Symbols:
    """What differs from run to run, made symbolic."""

    def __init__(self, database, prefix):
        self.database, self.prefix = database, prefix
        self.named = {}

    def name(self, kind, value):
        if value is None:
            return None
        of_kind = self.named.setdefault(kind, {})
        return of_kind.setdefault(value, f"{kind}{len(of_kind) + 1}")

    def times(self, block):
        ms, us, ns = (block.get(name) for name in ("ts_ms", "ts_us", "ts_ns"))
        if ms is not None and (us is None or us // 1000 == ms) and (ns is None or ns // 1000 == us):
            for name in ("ts_ms", "ts_us", "ts_ns"):
                if block.get(name) is not None:
                    block[name] = "time"

    def source(self, block):
        self.times(block)
        lsn = block.get("lsn")
        block["lsn"] = self.name("lsn", lsn)
        block["txId"] = self.name("tx", block.get("txId"))
        if block.get("sequence"):
            before, at = json.loads(block["sequence"])
            block["sequence"] = [
                None if before is None else "not later" if int(before) <= lsn else before,
                "the same" if int(at) == lsn else at,
            ]
        if "commit_lsn" in block:
            block["commit_lsn"] = "later" if block["commit_lsn"] >= lsn else block["commit_lsn"]
        for name, theirs, common in (("db", self.database, "corpus"), ("name", self.prefix, "corpus")):
            if block.get(name) == theirs:
                block[name] = common

    def value(self, value):
        if isinstance(value, dict) and isinstance(value.get("source"), dict):
            self.times(value)
            self.source(value["source"])
        return value


def topics_of(consumer, prefix):
    metadata = consumer.list_topics(timeout=30)
    return sorted(name for name in metadata.topics if name.startswith(prefix + "."))


def read(consumer, topic):
    partitions = list(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
    if partitions != [0]:
        raise ValueError(f"topic {topic} has the partitions {partitions}; one keeps all records in their order")
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    messages = []
    deadline = time.monotonic() + 60
    while len(messages) < end:
        message = consumer.poll(1.0)
        if message is None:
            if time.monotonic() > deadline:
                raise ValueError(f"topic {topic}: {len(messages)} of {end} records within a minute")
            continue
        if message.error():
            if message.error().code() == KafkaError._PARTITION_EOF:
                continue
            raise ValueError(str(message.error()))
        messages.append(message)
    return messages


def wait_for(consumer, topic, count):
    deadline = time.monotonic() + 120
    end = 0
    while time.monotonic() < deadline:
        if topic in consumer.list_topics(timeout=30).topics:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
            if end >= count:
                return
        time.sleep(0.2)
    sys.exit(f"{topic} has {end} records, and {count} were waited for")


def topic_in_common_form(messages, schemas, symbols):
    known, records = [], []

    def place(schema):
        if schema is None:
            return None
        if schema not in known:
            known.append(schema)
        return known.index(schema)

    for message in messages:
        key_schema, key = schemas.decode(message.key())
        value_schema, value = schemas.decode(message.value())
        records.append(
            {
                "key_schema": place(key_schema),
                "key": key,
                "value_schema": place(value_schema),
                "value": symbols.value(value),
                "headers": {name: header(name, data) for name, data in message.headers() or []},
            }
        )
    return {"schemas": known, "records": records}


def header(name, data):
    return "uuid" if name == "__debezium.context.runId" else (data or b"").decode("utf-8", "backslashreplace")


def in_lines(content):
    """JSON, a line for each schema and each record."""

    def lines(items):
        return ",\n".join(json.dumps(item, ensure_ascii=False, sort_keys=True) for item in items)

    return f'{{"schemas": [\n{lines(content["schemas"])}\n],\n"records": [\n{lines(content["records"])}\n]}}\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", required=True)
    parser.add_argument("--registry", required=True, help="the registry's Confluent API")
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--database", default="corpus")
    parser.add_argument("--out", help="a directory")
    parser.add_argument("--wait", type=int, help="wait for so many markers, and do nothing else")
    args = parser.parse_args()
    consumer = Consumer(
        {
            "bootstrap.servers": args.brokers,
            "group.id": f"read-{os.getpid()}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    if args.wait is not None:
        wait_for(consumer, f"{args.prefix}.public.marker", args.wait)
        return
    schemas = Schemas(args.registry, args.prefix)
    found = {}
    for topic in topics_of(consumer, args.prefix):
        symbols = Symbols(args.database, args.prefix)
        name = topic.removeprefix(args.prefix + ".")
        found[name] = topic_in_common_form(read(consumer, topic), schemas, symbols)
    consumer.close()
    if not args.out:
        json.dump(found, sys.stdout, ensure_ascii=False)
        return
    for name, content in found.items():
        with open(os.path.join(args.out, f"{name}.json"), "w", encoding="utf-8") as out:
            out.write(in_lines(content))
    print(f"{len(found)} topics, {sum(len(topic['records']) for topic in found.values())} records", file=sys.stderr)


main()

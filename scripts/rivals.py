"""Debezium, as the benchmarks run it: Kafka Connect standalone, Avro by the same registry, and tuned."""

import os
import random
import shlex
import signal
import socket
import subprocess
import threading
import time

from measuring import ROOT, cpu_of, fail, peak_of

# Run by the Python of the tests, which has a client of Kafka: says when a topic's partition has its first record more, and its last.
COUNT = """
import sys, time
from confluent_kafka import Consumer, TopicPartition
brokers, topic, base, records = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
consumer = Consumer({"bootstrap.servers": brokers, "group.id": "bench", "log_level": 0})
def end():
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=5)[1]
    except Exception:
        return 0
if base < 0:
    print(end())
    sys.exit()
while end() <= base:
    time.sleep(0.02)
print("first", flush=True)
while end() < base + records:
    time.sleep(0.02)
print("last", flush=True)
"""


class Debezium:
    """Its schemas are registered by a first run over a few rows: with `auto-register` it serialises them anew for every record."""

    def __init__(self, env, server, work):
        done = subprocess.run([os.path.join(ROOT, "scripts", "debezium-setup")], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            fail("Debezium could not be fetched (its message is above)")
        found = dict(line.split("=", 1) for line in done.stdout.splitlines())
        self.java, self.home = (shlex.split(found[name])[0] for name in ("java", "debezium"))
        self.env, self.server, self.work = env, server, work
        self.registry = env["WALFERRY_TEST_REGISTRY"].removesuffix("/apis/ccompat/v7") + "/apis/registry/v3"

    def count(self, topic, base, records):
        command = [self.env["WALFERRY_TEST_PYTHON"], "-c", COUNT, self.env["WALFERRY_TEST_KAFKA"], topic, str(base), str(records)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def run(self, name, records, register=False, **connector):
        """Until so many records are in Kafka. Counted from the first of them: the start of its JVM is not."""
        directory = os.path.join(self.work, f"debezium-{name}")
        os.mkdir(directory)
        with socket.socket() as free:
            while free.connect_ex(("127.0.0.1", port := random.randrange(12000, 30000))) == 0:
                pass
        converters = "".join(f"""
{which}.converter=io.apicurio.registry.utils.converter.AvroConverter
{which}.converter.apicurio.registry.url={self.registry}
{which}.converter.apicurio.registry.auto-register={str(register).lower()}
{which}.converter.apicurio.registry.find-latest={str(not register).lower()}
{which}.converter.apicurio.registry.headers.enabled=false
{which}.converter.apicurio.registry.use-id=contentId
{which}.converter.apicurio.use-id=contentId
{which}.converter.schema.name.adjustment.mode=avro""" for which in ("key", "value"))
        with open(os.path.join(directory, "worker.properties"), "w") as file:
            file.write(f"""
bootstrap.servers={self.env["WALFERRY_TEST_KAFKA"]}
offset.storage.file.filename={directory}/offsets
offset.flush.interval.ms=1000
listeners=http://127.0.0.1:{port}
plugin.path={self.home}/plugins
plugin.discovery=service_load
producer.acks=all
producer.compression.type=lz4
producer.batch.size=262144
producer.linger.ms=10
producer.buffer.memory=67108864
{converters}
""")
        settings = {
            "name": name,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": 1,
            "topic.prefix": "debezium",
            "database.hostname": "127.0.0.1",
            "database.port": self.server.port,
            "database.user": "postgres",
            "database.password": "none",
            "database.dbname": "bench",
            "plugin.name": "pgoutput",
            "slot.name": name,
            "publication.name": "bench",
            "publication.autocreate.mode": "disabled",
            "schema.name.adjustment.mode": "avro",
            "field.name.adjustment.mode": "avro",
            "topic.creation.default.replication.factor": 1,
            "topic.creation.default.partitions": 1,
            "max.batch.size": 8192,
            "max.queue.size": 32768,
            "poll.interval.ms": 50,
            "snapshot.fetch.size": 10240,
            **{key.replace("_", "."): value for key, value in connector.items()},
        }
        with open(os.path.join(directory, "connector.properties"), "w") as file:
            file.writelines(f"{key}={value}\n" for key, value in settings.items())

        topic = f"{settings['topic.prefix']}.public.rows"
        base = int(self.count(topic, -1, 0).communicate()[0])
        counter = self.count(topic, base, records)
        with open(os.path.join(directory, "log"), "w") as log:
            process = subprocess.Popen(
                [self.java, "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{self.home}/connect/*",
                 "org.apache.kafka.connect.cli.ConnectStandalone", "worker.properties", "connector.properties"],
                cwd=directory, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        # Whoever waits for records of one that is gone would wait for ever.
        threading.Thread(target=lambda: (process.wait(), counter.kill()), daemon=True).start()
        try:
            moments = []
            for expected in ("first", "last"):
                line = counter.stdout.readline().strip()
                if line != expected:
                    with open(os.path.join(directory, "log")) as log:
                        fail(f"Debezium did not get there: {log.read()[-4000:]}")
                moments.append((time.monotonic(), cpu_of(process.pid)))
            (begin, cpu_before), (end, cpu_after) = moments
            return {"wall": end - begin, "cpu": cpu_after - cpu_before, "memory": peak_of(process.pid)}
        finally:
            counter.kill()
            counter.wait()
            process.send_signal(signal.SIGKILL)
            process.wait()

"""Who drains a slot in the benchmark, and what it took: rows, seconds, processor time of everybody, memory."""

import dataclasses
import subprocess
import threading
import time
import urllib.request

from measuring import BINARY, LISTEN, cpu_of, fail, find, lsn, peak_of, walferry_config


@dataclasses.dataclass(frozen=True)
class Drain:
    """`transport`: tcp, tls or unix. `streaming`: large transactions come while they run."""

    program: str
    guarantee: str = "at-least-once"
    transport: str = "tcp"
    format: str = "text"
    streaming: bool = False

    @property
    def name(self):
        parts = [self.program if self.program != "walferry" else {"at-least-once": "walferry", "exactly-once": "exactly"}[self.guarantee]]
        parts += [part for part in (self.transport, self.format) if part not in ("tcp", "text")]
        return "-".join(parts + ["streaming"] * self.streaming)

    @property
    def title(self):
        title = {"recvlogical": "pg_recvlogical to /dev/null", "walferry": f"walferry to Kafka, {self.guarantee}",
                 "debezium": "Debezium 3.6.1 to Kafka"}[self.program]
        details = {"tls": "TLS", "unix": "unix socket", "binary": "binary"}
        notes = [details[part] for part in (self.transport, self.format) if part in details] + ["streaming"] * self.streaming
        return ", ".join([title, *notes])

    @property
    def beside(self):
        """What it is compared with: pg_recvlogical that reads the same."""
        return dataclasses.replace(self, program="recvlogical", guarantee="at-least-once")


def by_name():
    drains = [Drain("debezium")]
    for transport in ("tcp", "tls", "unix"):
        for form in ("text", "binary"):
            for streaming in (False, True):
                options = {"transport": transport, "format": form, "streaming": streaming}
                drains.append(Drain("recvlogical", **options))
                drains += [Drain("walferry", guarantee, **options) for guarantee in ("at-least-once", "exactly-once")]
    return {drain.name: drain for drain in drains}


class Meter:
    """Follows the processor time of a slot's walsender while it lives, and of the broker."""

    def __init__(self, server, broker, slot):
        self.broker, self.before = broker, cpu_of(broker)
        self.walsender, self.is_over = 0.0, False
        self.thread = threading.Thread(target=self.follow, args=(server, slot), daemon=True)
        self.thread.start()

    def follow(self, server, slot):
        pid = ""
        while not self.is_over and not pid:
            pid = server.sql(f"SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{slot}'")
            time.sleep(0.1)
        while not self.is_over:
            try:
                self.walsender = cpu_of(pid)
            except OSError:
                return
            time.sleep(0.1)

    def end(self):
        self.is_over = True
        self.thread.join()
        return {"walsender": self.walsender, "broker": cpu_of(self.broker) - self.before}


def run(drain, bench, slot, end, records):
    """Drains the slot to the end of the log."""
    programs = {"recvlogical": recvlogical, "walferry": walferry, "debezium": debezium}
    meter = Meter(bench.server, int(bench.env["WALFERRY_TEST_KAFKA_PID"]), slot)
    measured = programs[drain.program](drain, bench, slot, end, records)
    return {**measured, **meter.end()}


def host_and_mode(drain, server):
    return {"tcp": ("127.0.0.1", "disable"), "tls": ("127.0.0.1", "require"), "unix": (server.socket, "disable")}[drain.transport]


def recvlogical(drain, bench, slot, end, _):
    server = bench.server
    host, sslmode = host_and_mode(drain, server)
    version = {True: 2, False: 1}[drain.streaming]
    command = [find("pg_recvlogical"), "-d", f"host={host} port={server.port} user=postgres dbname=bench sslmode={sslmode}",
               "--slot", slot, "--start", "--endpos", end, "-f", "/dev/null", "--fsync-interval=0", "-o", f"proto_version={version}",
               "-o", "publication_names=bench"]
    command += ["-o", "binary=true"] * (drain.format == "binary") + ["-o", "streaming=on"] * drain.streaming
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    cpu, memory = 0.0, 0.0
    while process.poll() is None:
        try:
            cpu, memory = cpu_of(process.pid), peak_of(process.pid)
        except OSError:
            break
        time.sleep(0.02)
    process.wait()
    wall = time.monotonic() - begin
    if process.returncode:
        fail(process.stderr.read())
    return {"wall": wall, "cpu": cpu, "memory": memory}


def metrics():
    try:
        text = urllib.request.urlopen(f"http://{LISTEN}/metrics", timeout=5).read().decode()
    except OSError:
        return None
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")


def walferry(drain, bench, slot, end, records):
    host, sslmode = host_and_mode(drain, bench.server)
    streaming = {True: "on", False: "off"}[drain.streaming]
    # The topics and their schemas are there before the first run that is measured.
    config = walferry_config(bench.work, slot, bench.server, bench.env, host=host, postgres=f'sslmode = "{sslmode}"',
                             replication=f'create_slot = false\nformat = "{drain.format}"\nstreaming = "{streaming}"',
                             kafka=f'topic = "{bench.prefix}.{{schema}}.{{table}}"', snapshot='mode = "never"',
                             delivery=f'guarantee = "{drain.guarantee}"')
    begin = time.monotonic()
    with open(f"{config}.log", "w") as log:
        process = subprocess.Popen([BINARY, "run", "-c", config], stderr=log)
    target = lsn(end)
    while True:
        time.sleep(0.05)
        if process.poll() is not None:
            fail(f"walferry ended: {open(f'{config}.log').read()[-4000:]}")
        values = metrics()
        if values and float(values["walferry_confirmed_flush_lsn"]) >= target:
            break
    measured = {"wall": time.monotonic() - begin, "cpu": cpu_of(process.pid), "memory": peak_of(process.pid)}
    process.terminate()
    if process.wait(30):
        fail(f"walferry did not stop as asked: {open(f'{config}.log').read()[-4000:]}")
    published = sum(float(value) for name, value in values.items() if name.startswith("walferry_records_total{"))
    if published != records:
        fail(f"{published:.0f} records were published, not {records}")
    return measured


def debezium(drain, bench, slot, end, records):
    return bench.debezium.run(slot, records, topic_prefix=f"{bench.prefix}_debezium", snapshot_mode="no_data")

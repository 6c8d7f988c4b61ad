"""What the benchmarks have in common: the binary, the test servers, Postgres's programs, and what a process took."""

import contextlib
import glob
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TEST_ENV = os.path.join(ROOT, "scripts", "test-env")
BINARY = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release", "walferry")

# Where walferry is asked how it is.
LISTEN = "127.0.0.1:18099"

# The text of a row's columns is 196 bytes.
COLUMNS = ("id bigint PRIMARY KEY, account int, amount numeric(12,2), at timestamptz, active boolean, ratio float8, "
           "ref uuid, note text")


def rows_between(first, last):
    """A query of the rows of these ids."""
    return f"""SELECT id, id % 90000 + 10000, 1234.56, '2026-01-02 03:04:05.678901+00'::timestamptz, true, 0.12345678,
        'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid, rpad('', 79, md5(id::text)) FROM generate_series({first}, {last}) id"""


def fail(message):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {message}")


def say(message):
    print(f"{os.path.basename(sys.argv[0])}: {message}", file=sys.stderr)


def find(program):
    """The newest of Postgres's programs of that name."""
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{program}"))
    path = found[-1] if found else shutil.which(program)
    return path or fail(f"{program} is missing: install Postgres's programs (Debian: apt-get install postgresql)")


@contextlib.contextmanager
def servers():
    """Builds walferry, starts the test servers, and gives the directory of theirs; stops them whatever happens."""
    cargo = shutil.which("cargo") or os.path.expanduser("~/.cargo/bin/cargo")
    subprocess.run([cargo, "build", "--release", "--locked"], cwd=ROOT, check=True)
    # Whoever ends it by a signal leaves no server behind either.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    work = tempfile.mkdtemp(prefix="wfm.", dir="/tmp")
    os.chmod(work, 0o755)
    # A broker that is compiled well, as everybody's is.
    environment = {**os.environ, "WALFERRY_TEST_JVM": "-XX:+UseG1GC"}
    try:
        subprocess.run([TEST_ENV, "setup"], check=True)
        subprocess.run([TEST_ENV, "up", work], check=True, env=environment)
        yield work
    finally:
        subprocess.run([TEST_ENV, "down", work])
        shutil.rmtree(work, ignore_errors=True)


def environment(work):
    """What the servers' `env` file exports."""
    env = {}
    with open(os.path.join(work, "env")) as file:
        for line in file:
            name, _, value = line.removeprefix("export ").strip().partition("=")
            env[name] = value.strip("'")
    return env


def psql(host, port, query, database):
    """The answer to a query, as psql prints it without decoration."""
    command = [find("psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", host, "-p", port, "-U", "postgres", "-d", database]
    done = subprocess.run(command, input=query, text=True, capture_output=True)
    return done.stdout.strip() if done.returncode == 0 else fail(done.stderr.strip())


class Server:
    """One of the test servers."""

    def __init__(self, env, version):
        self.port = env[f"WALFERRY_TEST_POSTGRES_{version}_PORT"]
        self.socket = env[f"WALFERRY_TEST_POSTGRES_{version}_DIR"]

    def sql(self, query, database="bench"):
        return psql(self.socket, self.port, query, database)

    def version(self):
        return self.sql("SHOW server_version").split()[0]


def lsn(text):
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def cpu_of(pid):
    """Seconds of processor time that a process has taken."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_of(pid):
    """The most memory that a process has had, MiB."""
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return float("nan")


def run_to_end(command, **options):
    """Runs it; seconds, processor time and peak memory (MiB). Its exit code must be 0."""
    with tempfile.TemporaryFile("w+") as stderr:
        begin = time.monotonic()
        process = subprocess.Popen(command, stderr=stderr, **options)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            stderr.seek(0)
            fail(f"{command[0]} ended with {process.returncode}: {stderr.read()[-4000:]}")
    return {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "memory": usage.ru_maxrss / 1024}


def median_and_range(values, digits=1):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def ratios(runs, others, digits=2):
    """How much faster one was than the other, round by round."""
    return median_and_range([other["wall"] / run["wall"] for run, other in zip(runs, others)], digits)


def machine():
    return f"{os.cpu_count()} cores ({platform.machine()}), {time.strftime('%Y-%m-%d')}"


def walferry_config(work, name, server, env, host="127.0.0.1", database="bench", publication="bench", **sections):
    """Writes a configuration, and gives its path: each section's lines as given."""
    path = os.path.join(work, f"{name}.toml")
    with open(path, "w") as file:
        file.write(f"""
name = "{name}"
[postgres]
host = "{host}"
port = {server.port}
database = "{database}"
user = "postgres"
{sections.pop("postgres", "")}
[replication]
slot = "{name}"
publication = "{publication}"
{sections.pop("replication", "")}
[kafka]
bootstrap_servers = "{env["WALFERRY_TEST_KAFKA"]}"
{sections.pop("kafka", "")}
[schema_registry]
url = "{env["WALFERRY_TEST_REGISTRY"]}"
[http]
listen = "{LISTEN}"
""")
        for section, lines in sections.items():
            file.write(f"[{section}]\n{lines}\n")
    return path

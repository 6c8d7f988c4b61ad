"""What scripts/bench and scripts/latency have in common: the binary, the test servers, and Postgres's programs."""

import contextlib
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TEST_ENV = os.path.join(ROOT, "scripts", "test-env")
BINARY = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release", "walferry")


def fail(message):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {message}")


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
    try:
        subprocess.run([TEST_ENV, "setup"], check=True)
        subprocess.run([TEST_ENV, "up", work], check=True)
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

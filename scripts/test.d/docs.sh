#!/usr/bin/env bash
# The documents: their links lead somewhere, their configuration is accepted, and the metrics they list are those that
# there are.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/test.d/tools.bash

set_up_walferry
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 - << 'PYTHON'
import pathlib
import re
import sys

faults = []


def anchors(text):
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


for page in [*pathlib.Path().glob("*.md"), *pathlib.Path("docs").glob("*.md")]:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists():
            faults.append(f"{page}: {link} leads nowhere")
        elif anchor and anchor not in anchors(target.read_text()):
            faults.append(f"{page}: {link} names a heading that is not there")

operations = pathlib.Path("docs/operations.md").read_text()
table = operations.split("## Metrics")[1].split("##")[0]
documented = set()
for row in re.findall(r"^\| (`.*?) \|", table, re.M):
    documented |= set(re.findall(r"`([a-z_]+)", row))
documented -= {"process_"}
source = pathlib.Path("src/telemetry/metrics.rs").read_text().split("#[cfg(test)]")[0]
literals = {name.removeprefix("walferry_") for name in re.findall(r'"([a-z_]+)"', source)}
for name in sorted(documented - literals):
    faults.append(f"docs/operations.md: there is no metric {name}")
measured = {n for n in literals if re.search(r"_(total|bytes|records|lsn|seconds|info)$", n)}
for name in sorted(measured - documented):
    faults.append(f"docs/operations.md: the metric {name} is missing")
if faults:
    sys.exit("\n".join(faults))
PYTHON

# README's example, with a password file that is there.
printf 'secret\n' > "$work/password"
chmod 600 "$work/password"
sed -n '/^```toml$/,/^```$/{/^```/d;p}' README.md | sed "s#\"/run/secrets/walferry\"#\"$work/password\"#" > "$work/walferry.toml"
"$walferry" config show -c "$work/walferry.toml" > /dev/null
say "2 passed, 0 failed"

#!/usr/bin/env bash
# The documents: their links lead somewhere, their configuration is accepted, and the fields of the log that they list are those
# that there are.
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



def logged(text):
    """The parts of each line of the log that `run` may write at info or above, up to its message."""
    for found in re.finditer(r"tracing::(?:info|warn|error)!\(", text):
        depth, at, quoted, parts, begin = 1, found.end(), False, [], found.end()
        while depth:
            c = text[at]
            if quoted:
                at += c == "\\"
                quoted = c != '"'
            elif c == '"':
                quoted = True
            else:
                depth += (c in "([{") - (c in ")]}")
            if not quoted and (depth == 0 or (c == "," and depth == 1)):
                parts.append(text[begin:at].strip())
                begin = at + 1
            at += 1
        yield parts


operations = pathlib.Path("docs/operations.md").read_text()
table = operations.split("\n## Logs\n")[1].split("\n## ")[0]
documented = {name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`([a-z_]+)`", row)}
own = {"timestamp", "level", "target", "message"}
fields = set()
for source in pathlib.Path("src").rglob("*.rs"):
    # The demo's log is no interface, and a failpoint is there in tests alone.
    if "demo" in source.parts or source.name == "failpoint.rs":
        continue
    for parts in logged(source.read_text()):
        for part in parts:
            field = re.match(r'"([a-z_]+)" = |[%?]?([a-z_]+)(?:$| = |\()', part)
            if field:
                fields.add(field[1] or field[2])
            elif part.startswith('"'):
                break
            elif not part.startswith("target: "):
                sys.exit(f"{source}: what is logged here? {part}")
for field in sorted(fields & own):
    faults.append(f"a line of the log has a field {field}, which every line has already")
for field in sorted(fields - documented - own):
    faults.append(f"docs/operations.md: the log's field {field} is missing")
for field in sorted(documented - fields - own):
    faults.append(f"docs/operations.md: nothing is logged as {field}")
for field in sorted(own - documented):
    faults.append(f"docs/operations.md: the log's field {field} is missing")
if faults:
    sys.exit("\n".join(faults))
PYTHON

# README's example, with a password file that is there.
printf 'secret\n' > "$work/password"
chmod 600 "$work/password"
sed -n '/^```toml$/,/^```$/{/^```/d;p}' README.md | sed "s#\"/run/secrets/walferry\"#\"$work/password\"#" > "$work/walferry.toml"
"$walferry" config show -c "$work/walferry.toml" > /dev/null
say "2 passed, 0 failed"

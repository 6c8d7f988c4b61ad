"""Files that follow from others, for scripts/derive: written, or with --check compared."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib

CHART = pathlib.Path("helm/walferry")
KUBERNETES = pathlib.Path("deploy/kubernetes")


def schema():
    """The chart's schema, with the keys that the configuration has."""
    path = CHART / "values.schema.json"
    text = json.loads(path.read_text())
    with open("config/example.toml", "rb") as file:
        example = tomllib.load(file)

    def kind(value):
        if isinstance(value, dict):
            return ["object", "null"]
        if isinstance(value, bool):
            return ["boolean", "null"]
        if isinstance(value, int):
            return ["integer", "null"]
        # Where there may be several, a list may stand for one that is comma-separated, and the other way round.
        return ["string", "array", "null"]

    properties = {}
    for key, value in example.items():
        if isinstance(value, dict):
            keys = {name: {"type": kind(default)} for name, default in value.items()}
            properties[key] = {"type": ["object", "null"], "additionalProperties": False, "properties": keys}
        else:
            properties[key] = {"type": kind(value)}
    properties["name"] = {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,63}$"}
    properties["shutdown_timeout"] = {"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"}
    text["definitions"]["config"]["properties"] = properties
    return {path: json.dumps(text, indent=2) + "\n"}


def readme():
    """The chart's README.md, as helm-docs makes it of README.md.gotmpl and values.yaml."""
    with tempfile.TemporaryDirectory() as work:
        copy = pathlib.Path(work) / "walferry"
        shutil.copytree(CHART, copy, ignore=shutil.ignore_patterns("README.md"))
        subprocess.run(
            [os.environ["HELM_DOCS"], "--chart-search-root", work, "--sort-values-order", "file", "--log-level", "error"],
            check=True,
        )
        return {CHART / "README.md": (copy / "README.md").read_text().rstrip() + "\n"}


def copies():
    """What the chart must have in its own folder, since Helm reads no other."""
    return {
        CHART / "files/rules.yaml": pathlib.Path("deploy/prometheus/rules.yaml").read_text(),
        CHART / "files/dashboard.json": pathlib.Path("deploy/grafana/walferry.json").read_text(),
    }


def manifests():
    """The chart's manifests without what is Helm's own, a file for each kind."""
    rendered = subprocess.run(
        [os.environ["HELM"], "template", "walferry", str(CHART), "--namespace", "walferry", "--kube-version", "1.34.0"]
        + ["-f", str(KUBERNETES / "values.yaml")],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    rendered = re.sub(r"^ *(helm\.sh/chart: .*|app\.kubernetes\.io/managed-by: Helm)\n", "", rendered, flags=re.M)
    files = {}
    for document in re.split(r"^---\n", rendered, flags=re.M):
        document = re.sub(r"^# Source: .*\n", "", document).strip("\n")
        if not document:
            continue
        path = KUBERNETES / (re.search(r"^kind: (.*)$", document, re.M)[1].lower() + ".yaml")
        before = files.get(path, "# Made by scripts/derive from the chart and values.yaml.\n")
        files[path] = f"{before}{'---' + chr(10) if path in files else ''}{document}\n"
    return files


def main():
    check = sys.argv[1:] == ["--check"]
    # The copies come first: the manifests may hold them.
    wrong = []
    for make in (schema, copies, readme, manifests):
        files = make()
        for path, text in files.items():
            if path.exists() and path.read_text() == text:
                continue
            wrong.append(str(path))
            if not check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        if make is manifests:
            kept = {*files, KUBERNETES / "values.yaml", KUBERNETES / "kustomization.yaml"}
            for path in set(KUBERNETES.glob("*.yaml")) - kept:
                wrong.append(str(path))
                if not check:
                    path.unlink()
    if check and wrong:
        sys.exit("not as it follows from its source; run scripts/derive:\n  " + "\n  ".join(wrong))
    for path in wrong:
        print(f"written: {path}")


if __name__ == "__main__":
    main()

"""Checks of deploy/, for deploy.sh.

    deploy.py compose           compose.yaml, what it mounts, and the versions agree
    deploy.py alerts            each alert has a test in which it fires, a runbook, and asks for metrics that there are
    deploy.py dashboard FILE    the dashboard asks for metrics that there are; its queries are written to FILE as rules
    deploy.py kubernetes FILE   kustomization.yaml names the manifests beside it, which are written to FILE as one
"""

import json
import pathlib
import re
import sys

import yaml

DEPLOY = pathlib.Path("deploy")
RULES = DEPLOY / "prometheus/rules.yaml"
# Of the process collector; docs/operations.md has them as process_*.
PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds"}


def end(faults):
    if faults:
        sys.exit("\n".join(faults))


def load(path):
    return yaml.safe_load(path.read_text())


def compose():
    document = load(DEPLOY / "compose.yaml")
    services, volumes = document["services"], document["volumes"]
    faults = []
    for name, service in services.items():
        if "build" in service:
            context = DEPLOY / service["build"]["context"]
            if not (context / service["build"].get("dockerfile", "Dockerfile")).is_file():
                faults.append(f"{name}: no Dockerfile in its build context")
        elif ":" not in service["image"]:
            faults.append(f"{name}: the image {service['image']} has no version")
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            if source.startswith(".") and not (DEPLOY / source).exists():
                faults.append(f"{name}: {source} is mounted, and is not there")
            elif not source.startswith(".") and source not in volumes:
                faults.append(f"{name}: the volume {source} is not declared")
        for port in service.get("ports", []):
            if not port.startswith("127.0.0.1:"):
                faults.append(f"{name}: the port {port} is open to the network")
        for other in service.get("depends_on", {}):
            if other not in services:
                faults.append(f"{name}: depends on {other}, which is not there")

    def listens(target):
        host, port = target.split(":")
        return host in services and any(p.endswith(f":{port}") for p in services[host]["ports"])

    scrape = load(DEPLOY / "prometheus/prometheus.yml")["scrape_configs"]
    targets = [t for job in scrape for static in job["static_configs"] for t in static["targets"]]
    sources = load(DEPLOY / "grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    for target in [*targets, *(source["url"].removeprefix("http://") for source in sources)]:
        if not listens(target):
            faults.append(f"nothing listens on {target}")
    mounted = {mount.split(":")[1]: mount.split(":")[0] for mount in services["grafana"]["volumes"]}
    provider = load(DEPLOY / "grafana/provisioning/dashboards/walferry.yaml")["providers"][0]["options"]["path"]
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    if home not in mounted or pathlib.PurePath(home).parent != pathlib.PurePath(provider):
        faults.append("grafana: the dashboard is not mounted where the provider and the home page look for it")

    setting = next(c for c in services["postgres"]["command"] if c.startswith("max_slot_wal_keep_size="))
    limit = int(re.fullmatch(r"max_slot_wal_keep_size=(\d+)GB", setting)[1]) * 1024**3
    record = next(r for r in load(RULES)["groups"][0]["rules"] if "record" in r)
    if record["expr"] != f"vector({limit})":
        faults.append(f"rules.yaml: {record['record']} is not the {setting} of compose.yaml")

    version = services["walferry"]["image"].split(":")[1]
    if f'version = "{version}"' not in pathlib.Path("Cargo.toml").read_text():
        faults.append(f"compose.yaml: walferry's version is not {version}")
    chart = load(pathlib.Path("helm/walferry/Chart.yaml"))
    if chart["appVersion"] != version:
        faults.append(f"Chart.yaml: appVersion is {chart['appVersion']}, walferry's is {version}")
    end(faults)


def documented():
    """The metrics of docs/operations.md's table, whose names docs.sh holds against the source: name → kind."""
    table = pathlib.Path("docs/operations.md").read_text().split("## Metrics")[1].split("\n## ")[0]
    metrics = {name: "gauge" for name in PROCESS}
    for names, kind in re.findall(r"^\| (`.*?) \| (\w*) \|", table, re.M):
        for name in re.findall(r"`([a-z_]+)", names):
            metrics[f"walferry_{name}"] = kind
    return metrics


def asked(expression):
    """The metrics that an expression asks for."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    return set(re.findall(r"(?<![\w:])(?:walferry|process)_\w+(?![\w:])", bare))


def unknown(expression):
    metrics = documented()
    for name in asked(expression):
        histogram = re.fullmatch(r"(\w+)_(bucket|sum|count)", name)
        if not (name in metrics and metrics[name] != "histogram") and not (histogram and metrics.get(histogram[1]) == "histogram"):
            yield name


def alerts():
    rules = [rule for group in load(RULES)["groups"] for rule in group["rules"]]
    headings = set(re.findall(r"^## (Walferry\w+)$", pathlib.Path("docs/runbooks.md").read_text(), re.M))
    tests = load(DEPLOY / "prometheus/rules_test.yaml")["tests"]
    cases = [case for test in tests for case in test["alert_rule_test"]]
    firing = {case["alertname"] for case in cases if case.get("exp_alerts")}
    silent = {case["alertname"] for case in cases if not case.get("exp_alerts")}
    faults = []
    names = {rule["alert"] for rule in rules if "alert" in rule}
    for rule in rules:
        name = rule.get("alert") or rule["record"]
        faults += [f"{name}: there is no metric {metric}" for metric in unknown(rule["expr"])]
        if "record" in rule:
            continue
        if rule["annotations"]["runbook_url"] != f"docs/runbooks.md#{name.lower()}":
            faults.append(f"{name}: its runbook is not docs/runbooks.md#{name.lower()}")
        if rule["labels"].get("severity") not in ("warning", "critical"):
            faults.append(f"{name}: no severity")
        if name not in firing or name not in silent:
            faults.append(f"{name}: rules_test.yaml lacks a case in which it fires, or one in which it does not")
    faults += [f"docs/runbooks.md lacks {name}" for name in sorted(names - headings)]
    faults += [f"docs/runbooks.md has {name}, which is no alert" for name in sorted(headings - names)]
    end(faults)


def dashboard(target):
    document = json.loads((DEPLOY / "grafana/walferry.json").read_text())
    faults, queries = [], []
    identities = [panel["id"] for panel in document["panels"]]
    if len(set(identities)) != len(identities):
        faults.append("walferry.json: two panels with one id")
    for panel in document["panels"]:
        for query in panel.get("targets", []):
            queries.append(query["expr"])
            faults += [f"walferry.json: {panel['title']} asks for {name}, which is not there" for name in unknown(query["expr"])]
    for variable in document["templating"]["list"]:
        if variable["type"] == "query":
            faults += [f"walferry.json: {variable['name']} asks for {name}, which is not there" for name in unknown(variable["definition"])]
    end(faults)
    plain = [re.sub(r"\$__(rate_interval|range)", "5m", query) for query in queries]
    rules = [{"record": f"dashboard:query:{number}", "expr": query} for number, query in enumerate(plain)]
    pathlib.Path(target).write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))


def kubernetes(target):
    folder = DEPLOY / "kubernetes"
    resources = load(folder / "kustomization.yaml")["resources"]
    there = sorted(p.name for p in folder.glob("*.yaml") if p.name not in ("kustomization.yaml", "values.yaml"))
    if resources != there:
        sys.exit(f"kustomization.yaml names {resources}, and there are {there}")
    pathlib.Path(target).write_text("---\n".join((folder / name).read_text() for name in resources))


if __name__ == "__main__":
    commands = {"compose": compose, "alerts": alerts, "dashboard": dashboard, "kubernetes": kubernetes}
    commands[sys.argv[1]](*sys.argv[2:])

#!/usr/bin/env bash
# deploy/: the YAML parses, what it mounts and builds exists, ports and names agree, and walferry accepts its TOML.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/test.d/tools.bash
set_up_python

set_up_walferry

"$python" - << 'PYTHON'
import pathlib
import sys

import yaml

deploy = pathlib.Path("deploy")
compose = yaml.safe_load((deploy / "compose.yaml").read_text())
services, volumes = compose["services"], compose["volumes"]
faults = []
for name, service in services.items():
    if "build" in service:
        context = deploy / service["build"]["context"]
        if not (context / service["build"].get("dockerfile", "Dockerfile")).is_file():
            faults.append(f"{name}: no Dockerfile in its build context")
    elif ":" not in service["image"]:
        faults.append(f"{name}: the image {service['image']} has no version")
    for mount in service.get("volumes", []):
        source = mount.split(":")[0]
        if source.startswith(".") and not (deploy / source).is_file():
            faults.append(f"{name}: {source} is mounted, and is not there")
        elif not source.startswith(".") and source not in volumes:
            faults.append(f"{name}: the volume {source} is not declared")
    for port in service.get("ports", []):
        if not port.startswith("127.0.0.1:"):
            faults.append(f"{name}: the port {port} is open to the network")
    for other in service.get("depends_on", {}):
        if other not in services:
            faults.append(f"{name}: depends on {other}, which is not there")

scrape = yaml.safe_load((deploy / "prometheus.yml").read_text())["scrape_configs"]
for target in (t for job in scrape for static in job["static_configs"] for t in static["targets"]):
    host, port = target.split(":")
    if host not in services or not any(p.endswith(f":{port}") for p in services[host]["ports"]):
        faults.append(f"prometheus.yml: nothing listens on {target}")

version = services["walferry"]["image"].split(":")[1]
if f'version = "{version}"' not in pathlib.Path("Cargo.toml").read_text():
    faults.append(f"compose.yaml: walferry's version is not {version}")
chart = yaml.safe_load(pathlib.Path("helm/walferry/Chart.yaml").read_text())
if chart["appVersion"] != version:
    faults.append(f"Chart.yaml: appVersion is {chart['appVersion']}, walferry's is {version}")
if faults:
    sys.exit("\n".join(faults))
PYTHON

WALFERRY__POSTGRES__PASSWORD=walferry "$walferry" config show -c deploy/config/walferry.toml > /dev/null
sh -n deploy/image-root
say "2 passed, 0 failed"

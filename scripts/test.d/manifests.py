"""Checks of what Kubernetes is given, for chart.sh.

    manifests.py validate FILE        each manifest in FILE against the schemas of the oldest and newest Kubernetes
    manifests.py config FILE          the walferry.toml of FILE's ConfigMap
    manifests.py environment FILE     the container's environment, NAME=VALUE; what comes from a Secret is made up
    manifests.py expect FILE PATH VALUE...
                                      the value at PATH, e.g. Deployment.spec.replicas, is one of VALUEs (YAML)
"""

import sys

import kubernetes_validate
import yaml

VERSIONS = ("1.27", "1.34")


def manifests(path):
    with open(path, encoding="utf-8") as file:
        return [document for document in yaml.safe_load_all(file) if document]


def validate(path):
    documents = manifests(path)
    kinds = [document["kind"] for document in documents]
    for required in ("Deployment", "Service"):
        if kinds.count(required) != 1:
            sys.exit(f"{path}: {kinds.count(required)} manifests of kind {required}, expected one")
    for document in documents:
        if document["apiVersion"].startswith("monitoring.coreos.com/"):
            # Not part of Kubernetes: its selector and port must meet the Service's.
            service = next(d for d in documents if d["kind"] == "Service")
            selector = document["spec"]["selector"]["matchLabels"].items()
            assert selector <= service["metadata"]["labels"].items(), "ServiceMonitor selects another Service"
            ports = {port["name"] for port in service["spec"]["ports"]}
            assert {e["port"] for e in document["spec"]["endpoints"]} <= ports, "ServiceMonitor names another port"
            continue
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                sys.exit(f"{path}: {document['kind']} is not valid in Kubernetes {version}: {error}")
    pod = next(d for d in documents if d["kind"] == "Deployment")["spec"]["template"]
    service = next(d for d in documents if d["kind"] == "Service")
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items(), "Service selects other pods"
    container = pod["spec"]["containers"][0]
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} <= volumes, "a mount without its volume"
    for reference in (e["valueFrom"]["secretKeyRef"] for e in container["env"] if "valueFrom" in e):
        made = [d for d in documents if d["kind"] == "Secret" and d["metadata"]["name"] == reference["name"]]
        assert all(reference["key"] in secret["stringData"] for secret in made), f"no key {reference['key']}"
    print(f"{path}: {len(documents)} manifests valid")


def config(path):
    print(next(d for d in manifests(path) if d["kind"] == "ConfigMap")["data"]["walferry.toml"])


def environment(path):
    deployment = next(d for d in manifests(path) if d["kind"] == "Deployment")
    for variable in deployment["spec"]["template"]["spec"]["containers"][0]["env"]:
        print(f"{variable['name']}={variable.get('value', 'from-a-secret')}")


def expect(path, where, *allowed):
    kind, *keys = where.split(".")
    value = next(d for d in manifests(path) if d["kind"] == kind)
    for key in keys:
        value = value[int(key) if key.isdigit() else key]
    if value not in [yaml.safe_load(text) for text in allowed]:
        sys.exit(f"{path}: {where} is {value!r}, expected {' or '.join(allowed)}")


if __name__ == "__main__":
    {"validate": validate, "config": config, "environment": environment, "expect": expect}[sys.argv[1]](*sys.argv[2:])

"""Checks of what Kubernetes is given, for chart.sh.

    manifests.py validate FILE...          each manifest against the schemas of several versions of Kubernetes, and against the others
    manifests.py configurations FILE DIR   for each Deployment with a ConfigMap DIR/NAME.toml, the walferry.toml in it, and
                                           DIR/NAME.env, the container's environment; what comes from a Secret is made up
    manifests.py rules FILE                the PrometheusRule in FILE, as a file of rules
    manifests.py expect FILE PATH VALUE... the value at PATH, e.g. Deployment.spec.replicas, is one of VALUEs (YAML)
"""

import pathlib
import re
import sys

import kubernetes_validate
import yaml

VERSIONS = ("1.25", "1.28", "1.31", "1.34", "1.37")
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL = re.compile(r"(([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)")


def manifests(path):
    with open(path, encoding="utf-8") as file:
        return [document for document in yaml.safe_load_all(file) if document]


def is_own(document):
    """Whether Kubernetes itself knows it."""
    return not document["apiVersion"].startswith("monitoring.coreos.com/")


def named(documents, kind, name):
    return [d for d in documents if d["kind"] == kind and d["metadata"]["name"] == name]


def validate(*paths):
    for path in paths:
        try:
            documents = manifests(path)
            check(documents)
            print(f"{path}: {len(documents)} manifests valid")
        except (AssertionError, kubernetes_validate.ValidationError) as error:
            sys.exit(f"{path}: {error}")


def check(documents):
    deployments = [d for d in documents if d["kind"] == "Deployment"]
    services = [d for d in documents if d["kind"] == "Service"]
    assert deployments and services, "no Deployment or no Service"
    seen = set()
    for document in documents:
        what = f"{document['kind']} {document['metadata']['name']}"
        assert what not in seen, f"{what} is there twice"
        seen.add(what)
        assert NAME.fullmatch(document["metadata"]["name"]), f"{what}: not a name"
        for key, value in document["metadata"]["labels"].items():
            assert LABEL.fullmatch(key) and LABEL.fullmatch(value), f"{what}: not a label: {key}={value}"
        if not is_own(document):
            continue
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                raise AssertionError(f"{what} is not valid in Kubernetes {version}: {error}") from error
    pods = [(d, d["spec"]["template"]["metadata"]["labels"]) for d in deployments]
    for deployment in deployments:
        wanted = deployment["spec"]["selector"]["matchLabels"].items()
        selected = [d["metadata"]["name"] for d, labels in pods if wanted <= labels.items()]
        assert selected == [deployment["metadata"]["name"]], f"{deployment['metadata']['name']} selects {selected}"
        check_pod(deployment["spec"]["template"]["spec"], documents)
    for service in services:
        wanted = service["spec"]["selector"].items()
        selected = [d["metadata"]["name"] for d, labels in pods if wanted <= labels.items()]
        name = service["metadata"]["name"]
        assert selected and set(selected) <= {name, f"{name}-standby"}, f"Service {name} selects {selected}"
    for kind in ("PodDisruptionBudget", "NetworkPolicy"):
        for document in (d for d in documents if d["kind"] == kind):
            selector = document["spec"].get("selector") or document["spec"]["podSelector"]
            assert any(selector["matchLabels"].items() <= labels.items() for _, labels in pods), f"{kind} selects nothing"
    for document in documents:
        if document["kind"] == "ServiceMonitor":
            check_monitor(document, document["spec"]["endpoints"], [s["metadata"]["labels"] for s in services], "service")
        elif document["kind"] == "PodMonitor":
            check_monitor(document, document["spec"]["podMetricsEndpoints"], [labels for _, labels in pods], "pod")


def check_pod(pod, documents):
    container = pod["containers"][0]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == set(volumes), f"volumes {set(volumes)}, mounts {mounted}"
    for volume in volumes.values():
        if "configMap" in volume:
            assert named(documents, "ConfigMap", volume["configMap"]["name"]), f"no ConfigMap for {volume}"
    claim = volumes.get("spool", {}).get("persistentVolumeClaim")
    assert not claim or named(documents, "PersistentVolumeClaim", claim["claimName"]), f"no claim {claim}"
    for reference in (e["valueFrom"]["secretKeyRef"] for e in container["env"] if "valueFrom" in e):
        for secret in named(documents, "Secret", reference["name"]):
            assert reference["key"] in secret["stringData"], f"no key {reference['key']}"
    variables = [e["name"] for e in container["env"]]
    assert len(variables) == len(set(variables)), f"a variable twice: {variables}"


def check_monitor(document, endpoints, labelled, role):
    """Not part of Kubernetes: its selector, its port and its labels must meet what is there."""
    wanted = document["spec"]["selector"]["matchLabels"].items()
    assert all(wanted <= labels.items() for labels in labelled), f"{document['kind']} selects others"
    for endpoint in endpoints:
        assert endpoint["port"] == "http" and endpoint["path"] == "/metrics", f"{document['kind']} asks elsewhere"
        for rule in endpoint["relabelings"]:
            for source in rule["sourceLabels"]:
                names = {f"__meta_kubernetes_{role}_label_{re.sub('[^A-Za-z0-9_]', '_', n)}" for n in labelled[0]}
                assert source in names, f"{source} is no label of a {role}"


def configurations(path, folder):
    documents = manifests(path)
    for deployment in (d for d in documents if d["kind"] == "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        source = next(v for v in pod["volumes"] if v["name"] == "config").get("configMap")
        if not source:
            continue
        target = pathlib.Path(folder) / deployment["metadata"]["name"]
        toml = named(documents, "ConfigMap", source["name"])[0]["data"]["walferry.toml"]
        target.with_name(f"{target.name}.toml").write_text(f"{toml}\n")
        variables = [f"{e['name']}={e.get('value', 'from-a-secret')}" for e in pod["containers"][0]["env"]]
        target.with_name(f"{target.name}.env").write_text("\n".join(variables) + "\n")


def rules(path):
    rule = next(d for d in manifests(path) if d["kind"] == "PrometheusRule")
    print(yaml.safe_dump(rule["spec"]))


def expect(path, where, *allowed):
    kind, *keys = where.split(".")
    value = next(d for d in manifests(path) if d["kind"] == kind)
    for key in keys:
        value = value[int(key) if key.isdigit() else key]
    if value not in [yaml.safe_load(text) for text in allowed]:
        sys.exit(f"{path}: {where} is {value!r}, expected {' or '.join(allowed)}")


if __name__ == "__main__":
    commands = {"validate": validate, "configurations": configurations, "rules": rules, "expect": expect}
    commands[sys.argv[1]](*sys.argv[2:])

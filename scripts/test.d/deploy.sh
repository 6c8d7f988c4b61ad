#!/usr/bin/env bash
# deploy/: Compose loads compose.yaml, what it mounts and builds exists, and its ports and names agree; walferry accepts each
# TOML; the alerts are right by their tests, and each has its runbook; rules and dashboard ask for metrics that there are; the
# systemd unit is sound and hardened; the Kubernetes manifests are valid.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/test.d/tools.bash
set_up_python
set_up_promtool
set_up_compose
command -v systemd-analyze > /dev/null 2>&1 || apt_install systemd "systemd-analyze is missing"

set_up_walferry
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
pass() { passed=$((passed + 1)); }
quiet() { # quiet COMMAND…: its output is shown only if it fails
    "$@" > "$work/output" 2>&1 || { cat "$work/output" >&2; die "failed: $*"; }
    pass
}

quiet "$compose" deploy/compose.yaml
"$python" scripts/test.d/deploy.py compose
pass
WALFERRY__POSTGRES__PASSWORD=walferry "$walferry" config show -c deploy/config/walferry.toml > /dev/null
pass
sh -n deploy/image-root
pass

# --- alerts and dashboard ---------------------------------------------------------------------------------------------
quiet "$promtool" check config deploy/prometheus/prometheus.yml
quiet "$promtool" test rules deploy/prometheus/rules_test.yaml
"$python" scripts/test.d/deploy.py alerts
pass
# The dashboard's queries as rules, which promtool knows how to judge.
"$python" scripts/test.d/deploy.py dashboard "$work/dashboard.yaml"
pass
quiet "$promtool" check rules "$work/dashboard.yaml"

# --- systemd ----------------------------------------------------------------------------------------------------------
# The binary is not where the unit has it.
sed "s|/usr/bin/walferry|$(realpath "$walferry")|" deploy/systemd/walferry@.service > "$work/walferry@.service"
cp "$work/walferry@.service" "$work/walferry@shop.service"
quiet systemd-analyze verify --man=no --recursive-errors=no "$work/walferry@shop.service"
[ ! -s "$work/output" ] || { cat "$work/output" >&2; die "systemd-analyze has something to say of the unit"; }
# From 0, nothing to fear, to 100.
quiet systemd-analyze security --offline=yes --threshold=20 "$work/walferry@shop.service"

# --- Kubernetes -------------------------------------------------------------------------------------------------------
"$python" scripts/test.d/deploy.py kubernetes "$work/kubernetes.yaml"
quiet "$python" scripts/test.d/manifests.py validate "$work/kubernetes.yaml"
mkdir "$work/kubernetes"
"$python" scripts/test.d/manifests.py configurations "$work/kubernetes.yaml" "$work/kubernetes"
mapfile -t environment < "$work/kubernetes/walferry.env"
env "${environment[@]}" "$walferry" config show -c "$work/kubernetes/walferry.toml" > /dev/null
pass

say "$passed passed, 0 failed"

#!/usr/bin/env bash
# The Helm chart: what is derived is up to date; its unit tests pass, those of what it refuses among them; it lints and renders
# with each of ci/*-values.yaml, is valid in several versions of Kubernetes, and its TOML is accepted by walferry itself.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/test.d/tools.bash
set_up_helm
set_up_helm_unittest
set_up_promtool
set_up_python

chart=helm/walferry
set_up_walferry
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
pass() { passed=$((passed + 1)); }
render() { "$helm" template shop "$chart" --kube-version 1.34.0 "$@"; }
manifest() { "$python" scripts/test.d/manifests.py "$@"; }

scripts/derive --check
pass

"$helm_unittest" --strict "$chart" > "$work/unit" 2>&1 || { cat "$work/unit" >&2; die "the chart's unit tests fail"; }
units=$(sed -n 's/^Tests: *\([0-9]*\) passed, .*/\1/p' "$work/unit")
[ "${units:-0}" -gt 0 ] || { cat "$work/unit" >&2; die "no unit test of the chart was run"; }
passed=$((passed + units))

# Every section of the values has its test of a wrong value.
"$python" - << 'PYTHON'
import re
import sys

import yaml

with open("helm/walferry/values.yaml") as file:
    sections = set(yaml.safe_load(file))
with open("helm/walferry/tests/refused_test.yaml") as file:
    patterns = [test["asserts"][0]["failedTemplate"]["errorPattern"] for test in yaml.safe_load(file)["tests"]]
tested = {match[1] for pattern in patterns if (match := re.match(r"at '/([A-Za-z]+)", pattern))}
if sections - tested:
    sys.exit(f"refused_test.yaml has no wrong value of {', '.join(sorted(sections - tested))}")
PYTHON
pass

# --- accepted ---------------------------------------------------------------------------------------------------------
mkdir "$work/values"
touch "$work/values/default-values.yaml"
values_files=("$work/values/default-values.yaml" "$chart"/ci/*-values.yaml)
for values in "${values_files[@]}"; do
    name=$(basename "$values" -values.yaml)
    "$helm" lint --strict --quiet --kube-version 1.34.0 "$chart" -f "$values" > "$work/lint" 2>&1 || { cat "$work/lint" >&2; die "helm lint refuses $values"; }
    render -f "$values" > "$work/$name.yaml" || die "the chart does not render with $values"
    pass
done
manifest validate "$work"/*.yaml
passed=$((passed + ${#values_files[@]}))

show() { # show NAME: walferry accepts each configuration that is rendered with NAME-values.yaml
    local toml environment
    mkdir "$work/$1"
    manifest configurations "$work/$1.yaml" "$work/$1"
    for toml in "$work/$1"/*.toml; do
        mapfile -t environment < "${toml%.toml}.env"
        env "${environment[@]}" "$walferry" config show -c "$toml" > /dev/null 2> "$work/errors" || {
            cat "$toml" "$work/errors" >&2
            die "walferry refuses the TOML that the chart renders with $1-values.yaml"
        }
        pass
    done
}
show default
show full
show secrets
show pipelines
show ephemeral
show spool

# What acceptGap hands on.
"$walferry" run --help | grep -q -- --accept-gap || die "walferry run knows no --accept-gap"
pass

manifest expect "$work/secrets.yaml" Secret.stringData.postgres-password '"it'\''s \"quoted\" $and\\odd: #1"'
manifest expect "$work/secrets.yaml" Deployment.spec.template.spec.serviceAccountName default
passed=$((passed + 2))

has() { # has FILE LINE: what walferry reads is what the values say, by its type too
    grep -qxF "$2" "$work/$1.toml" || { cat "$work/$1.toml" >&2; die "the TOML of $1 lacks: $2"; }
    pass
}
has full/shop-walferry 'port = 5433'
has full/shop-walferry 'host = ["pg-a", "pg-b"]'
has full/shop-walferry 'tables = ["public.*", "sales.\"Order Lines\""]'
has full/shop-walferry 'max_rows_per_second = 20000'
has full/shop-walferry 'topic_config = { "cleanup.policy" = "compact", "retention.ms" = "604800000" }'
has full/shop-walferry 'properties = { "linger.ms" = "5", "sasl.oauthbearer.token.endpoint.url" = "https://login/token", "socket.keepalive.enable" = "true" }'
has full/shop-walferry 'columns = { "public.users.\"Note\"" = { required = true, truncate = 100, type = "string" }, "public.users.email" = { mask = "fixed", with = "***" } }'
has pipelines/shop-walferry-billing 'name = "billing.v2"'

# A changed configuration must start a new pod; another replica count must not.
checksum() { render "$@" | grep -F 'checksum/config:'; }
[ "$(checksum)" = "$(checksum --set replicaCount=0)" ] || die "checksum/config changes without a change of configuration"
[ "$(checksum)" != "$(checksum --set config.name=other)" ] || die "checksum/config does not change with the configuration"
passed=$((passed + 2))

# The rules as the operator would get them, and unchanged where the values change nothing.
for name in pipelines ephemeral; do
    manifest rules "$work/$name.yaml" > "$work/$name.rules"
    "$promtool" check rules --lint=all --lint-fatal "$work/$name.rules" > "$work/rules" 2>&1 || { cat "$work/rules" >&2; die "promtool refuses the rules of $name"; }
    pass
done
"$python" - "$work/ephemeral.rules" deploy/prometheus/rules.yaml << 'PYTHON'
import sys

import yaml

chart, deploy = (yaml.safe_load(open(path)) for path in sys.argv[1:])
if chart != deploy:
    sys.exit("the chart's PrometheusRule differs from deploy/prometheus/rules.yaml")
PYTHON
pass

# --- refused where the schema is skipped ------------------------------------------------------------------------------
refused() { # refused TEXT ARGUMENTS...: rendering fails, and says TEXT
    local text=$1
    shift
    if render --skip-schema-validation "$@" > /dev/null 2> "$work/errors"; then die "accepted, but should be refused: $*"; fi
    grep -qiF -- "$text" "$work/errors" || { cat "$work/errors" >&2; die "the refusal of $* does not say: $text"; }
    pass
}
refused 'a slot has one reader' --set replicaCount=2
refused 'pipelines.a.replicaCount is 2' --set pipelines.a.replicaCount=2
refused 'use spool.mountPath' --set config.replication.spool_dir=/spool
refused 'serviceMonitor.enabled and podMonitor.enabled are both true' --set serviceMonitor.enabled=true --set podMonitor.enabled=true

say "$passed passed, 0 failed"

#!/usr/bin/env bash
# The Helm chart: lints, renders with each of ci/*-values.yaml, is valid Kubernetes, refuses what it must refuse, and
# its TOML is accepted by walferry itself.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/test.d/tools.bash
set_up_helm
set_up_python

chart=helm/walferry
set_up_walferry
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
pass() { passed=$((passed + 1)); }
render() { "$helm" template shop "$chart" --kube-version 1.34.0 "$@"; }
manifest() { "$python" scripts/test.d/manifests.py "$@"; }

lint() { "$helm" lint --strict --quiet "$chart" "$@" > "$work/lint" 2>&1 || { cat "$work/lint" >&2; die "helm lint refuses: $*"; }; }

lint
pass

# --- accepted ---------------------------------------------------------------------------------------------------------
touch "$work/default-values.yaml"
for values in "$work/default-values.yaml" "$chart"/ci/*-values.yaml; do
    name=$(basename "$values" -values.yaml)
    lint -f "$values"
    render -f "$values" > "$work/$name.yaml" || die "the chart does not render with $values"
    manifest validate "$work/$name.yaml"
    pass
    if grep -q '^kind: ConfigMap' "$work/$name.yaml"; then
        manifest config "$work/$name.yaml" > "$work/$name.toml"
        mapfile -t environment < <(manifest environment "$work/$name.yaml")
        env "${environment[@]}" \
            "$walferry" config show -c "$work/$name.toml" > "$work/$name.shown" 2> "$work/errors" || {
            cat "$work/errors" >&2
            die "walferry refuses the TOML that the chart renders with $values"
        }
        pass
    fi
done
manifest expect "$work/default.yaml" Deployment.spec.replicas 1
manifest expect "$work/default.yaml" Deployment.spec.strategy.type Recreate
manifest expect "$work/secrets.yaml" Deployment.spec.replicas 0
manifest expect "$work/secrets.yaml" Secret.stringData.postgres-password '"it'\''s \"quoted\" $and\\odd: #1"'
manifest expect "$work/secrets.yaml" Deployment.spec.template.spec.serviceAccountName default
manifest expect "$work/full.yaml" Deployment.spec.template.spec.containers.0.env.0.value '"[::]:9090"'
manifest expect "$work/full.yaml" Deployment.spec.template.spec.containers.0.env.1.valueFrom.secretKeyRef \
    '{name: shop-passwords, key: pg}'
manifest expect "$work/config-secret.yaml" Deployment.spec.template.spec.volumes.0.secret.secretName shop-config
passed=$((passed + 8))

has() { # has FILE LINE: what walferry read is what the values say, by its type too
    grep -qxF "$2" "$work/$1.toml" || { cat "$work/$1.toml" >&2; die "the TOML of $1 lacks: $2"; }
    pass
}
has full 'port = 5433'
has full 'host = ["pg-a", "pg-b"]'
has full 'tables = ["public.*", "sales.\"Order Lines\""]'
has full 'max_rows_per_second = 20000'
has full 'topic_config = { "cleanup.policy" = "compact", "retention.ms" = "604800000" }'
has full 'properties = { "linger.ms" = "5", "sasl.oauthbearer.token.endpoint.url" = "https://login/token", "socket.keepalive.enable" = "true" }'
has full 'columns = { "public.users.\"Note\"" = { required = true, truncate = 100, type = "string" }, "public.users.email" = { mask = "fixed", with = "***" } }'

# A changed configuration must start a new pod; another replica count must not.
checksum() { render "$@" | grep -F 'checksum/config:'; }
[ "$(checksum)" = "$(checksum --set replicaCount=0)" ] || die "checksum/config changes without a change of configuration"
[ "$(checksum)" != "$(checksum --set config.name=other)" ] || die "checksum/config does not change with the configuration"
passed=$((passed + 2))

# --- refused ----------------------------------------------------------------------------------------------------------
refused() { # refused TEXT ARGUMENTS...: rendering fails, and says TEXT
    local text=$1
    shift
    if render "$@" > /dev/null 2> "$work/errors"; then die "accepted, but should be refused: $*"; fi
    grep -qiF -- "$text" "$work/errors" || { cat "$work/errors" >&2; die "the refusal of $* does not say: $text"; }
    pass
}
for text in maximum "a slot has one reader"; do
    # The template's own check still stands where the schema is skipped.
    skip=()
    [ "$text" = maximum ] || skip=(--skip-schema-validation)
    refused "$text" --set replicaCount=2 "${skip[@]}"
done
refused 'additional properties' --set replicas=1
refused 'additional properties' --set config.postgresql.host=a
refused 'additional properties' --set image.name=a
refused 'shutdown_timeout' --set config.shutdown_timeout=30
refused 'http/port' --set http.port=80
refused 'config is empty' --set config=null
refused 'existingConfigSecret.name and config are both set' --set existingConfigSecret.name=a
refused 'use http.address and http.port' --set config.http.listen=127.0.0.1:1
refused 'config.postgres.password would stand in a ConfigMap' --set config.postgres.password=a
refused 'config.schema_registry.password would stand' --set config.schema_registry.password=a
refused 'config.schema_registry.bearer_token would stand' --set config.schema_registry.bearer_token=a
refused 'the secret "sasl.password"' --set 'config.kafka.properties.sasl\.password=a'
refused 'the secret "ssl.key.pem"' --set 'config.kafka.properties.ssl\.key\.pem=a'
refused 'config.avro.columns has a salt' --set 'config.avro.columns.a\.b\.c.mask=sha256' --set 'config.avro.columns.a\.b\.c.salt=a'
refused 'existingSecret.name and secrets are both set' --set existingSecret.name=a --set secrets.postgresPassword=b
refused 'the registry is given one of them' --set secrets.schemaRegistryPassword=a --set secrets.schemaRegistryBearerToken=b
refused 'killed while it drains' --set config.shutdown_timeout=45s
refused 'killed while it drains' --set config.shutdown_timeout=1m
refused 'killed while it drains' --set terminationGracePeriodSeconds=30
render --set config.shutdown_timeout=44999ms > /dev/null
pass

say "$passed passed, 0 failed"

{{/*
What values.schema.json cannot say, or is not asked (`helm template --skip-schema-validation`): each conflict
with its keys and the cure.
*/}}
{{- define "walferry.validate" -}}
{{- if and .Values.serviceMonitor.enabled .Values.podMonitor.enabled -}}
{{- fail "serviceMonitor.enabled and podMonitor.enabled are both true: each pod would be scraped twice. Keep one of them." -}}
{{- end -}}
{{- if and .Values.pipelines .Values.existingConfigSecret.name -}}
{{- fail "existingConfigSecret.name would give all pipelines the same file: name each one's own in pipelines.NAME.existingConfigSecret.name." -}}
{{- end -}}
{{- $names := dict -}}
{{- range $key, $values := include "walferry.pipelines" . | fromJson -}}
  {{- $pipeline := dict "Values" $values "Chart" $.Chart "Release" $.Release "key" $key -}}
  {{- include "walferry.pipeline.validate" (set $pipeline "at" (ternary (printf "pipelines.%s." $key) "" (ne $key ""))) -}}
  {{- $name := dig "name" "" ($values.config | default dict) -}}
  {{- if and $name (hasKey $names $name) -}}
    {{- fail (printf "pipelines.%s and pipelines.%s have both the config.name %q: they would share slot, topics and recorded position. Give each a name of its own." (get $names $name) $key $name) -}}
  {{- end -}}
  {{- if $name -}}{{- $_ := set $names $name $key -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* One pipeline's values; `at` stands before the keys in what is said. */}}
{{- define "walferry.pipeline.validate" -}}
{{- $at := .at -}}
{{- $fullname := include "walferry.pipeline.fullname" . -}}
{{- $longest := ternary 54 63 .Values.standby.enabled -}}
{{- if gt (len $fullname) $longest -}}
{{- fail (printf "the name %s is longer than %d characters: shorten fullnameOverride, or the pipeline's." $fullname $longest) -}}
{{- end -}}
{{- if not (has (int .Values.replicaCount) (list 0 1)) -}}
{{- fail (printf "%sreplicaCount is %v: a slot has one reader, so it is 0 or 1. For another pipeline see pipelines, for a standby standby.enabled." $at .Values.replicaCount) -}}
{{- end -}}
{{- if .Values.existingConfigSecret.name -}}
  {{- if .Values.config -}}
  {{- fail (printf "%sexistingConfigSecret.name and %sconfig are both set: the Secret holds the whole file. Set config: null." $at $at) -}}
  {{- end -}}
{{- else if not .Values.config -}}
{{- fail (printf "%sconfig is empty: set it, or name a Secret with the whole file in %sexistingConfigSecret.name." $at $at) -}}
{{- end -}}
{{/* A section that is null is one that is not there. */}}
{{- $config := include "walferry.merged" (list dict (.Values.config | default dict)) | fromJson -}}
{{- include "walferry.pipeline.validate.config" (dict "at" $at "config" $config) -}}
{{- $secrets := .Values.secrets -}}
{{- if and .Values.existingSecret.name (or $secrets.postgresPassword $secrets.schemaRegistryPassword $secrets.schemaRegistryBearerToken) -}}
{{- fail (printf "%sexistingSecret.name and %ssecrets are both set: keep one of them." $at $at) -}}
{{- end -}}
{{- if and $secrets.schemaRegistryPassword $secrets.schemaRegistryBearerToken -}}
{{- fail (printf "%ssecrets.schemaRegistryPassword and %ssecrets.schemaRegistryBearerToken are both set: the registry is given one of them." $at $at) -}}
{{- end -}}
{{- if and .Values.existingSecret.name .Values.existingSecret.schemaRegistryPasswordKey .Values.existingSecret.schemaRegistryBearerTokenKey -}}
{{- fail (printf "%sexistingSecret.schemaRegistryPasswordKey and %sexistingSecret.schemaRegistryBearerTokenKey are both set: the registry is given one of them." $at $at) -}}
{{- end -}}
{{- $timeout := dig "shutdown_timeout" "30s" $config -}}
{{- if regexMatch "^[0-9]+(ms|s|m|h)$" $timeout -}}
  {{- $number := regexFind "^[0-9]+" $timeout | int -}}
  {{- $unit := regexFind "[a-z]+$" $timeout -}}
  {{- $seconds := ternary (div $number 1000) (mul $number (get (dict "s" 1 "m" 60 "h" 3600) $unit | default 1)) (eq $unit "ms") -}}
  {{- if le (int .Values.terminationGracePeriodSeconds) (int $seconds) -}}
  {{- fail (printf "%sterminationGracePeriodSeconds is %v, config.shutdown_timeout is %s: the pod would be killed while it drains. Make the first longer." $at .Values.terminationGracePeriodSeconds $timeout) -}}
  {{- end -}}
{{- end -}}
{{- if dig "replication" "spool_dir" "" $config -}}
{{- fail (printf "%sconfig.replication.spool_dir is set by the chart, for it to be where the volume is: use spool.mountPath." $at) -}}
{{- end -}}
{{- if and .Values.spool.existingClaim (ne .Values.spool.type "persistent") -}}
{{- fail (printf "%sspool.existingClaim is set, and %sspool.type is %s: it is used by persistent alone." $at $at .Values.spool.type) -}}
{{- end -}}
{{- if and .Values.spool.existingClaim .Values.standby.enabled -}}
{{- fail (printf "%sspool.existingClaim and %sstandby.enabled are both set: each of the two needs a directory of its own, since a start clears it. Use spool.type ephemeral, or let the chart make the claims." $at $at) -}}
{{- end -}}
{{- $budget := .Values.podDisruptionBudget -}}
{{- if and $budget.enabled (eq (toString $budget.minAvailable) "") (eq (toString $budget.maxUnavailable) "") -}}
{{- fail (printf "%spodDisruptionBudget has neither minAvailable nor maxUnavailable: set one of them." $at) -}}
{{- end -}}
{{- if and $budget.enabled (ne (toString $budget.minAvailable) "") (ne (toString $budget.maxUnavailable) "") -}}
{{- fail (printf "%spodDisruptionBudget.minAvailable and %spodDisruptionBudget.maxUnavailable are both set: Kubernetes takes one of them. Set the other to \"\"." $at $at) -}}
{{- end -}}
{{- end -}}

{{/* What must not stand in a ConfigMap. */}}
{{- define "walferry.pipeline.validate.config" -}}
{{- $at := .at -}}
{{- $config := .config -}}
{{- if dig "http" "listen" "" $config -}}
{{- fail (printf "%sconfig.http.listen is set by the chart, for the probes and the Service to agree with it: use http.address and http.port." $at) -}}
{{- end -}}
{{- range $path := list "postgres.password" "schema_registry.password" "schema_registry.bearer_token" -}}
  {{- $parts := splitList "." $path -}}
  {{- if dig (index $parts 0) (index $parts 1) "" $config -}}
  {{- fail (printf "%sconfig.%s would stand in a ConfigMap for all to read: use existingSecret, or secrets." $at $path) -}}
  {{- end -}}
{{- end -}}
{{- range $key, $value := dig "kafka" "properties" (dict) $config -}}
  {{- if and (regexMatch "(?i)(password|passphrase|secret|token|credential|\\.pem$|^sasl\\.(oauthbearer|jaas)\\.config$)" $key) (not (regexMatch "(_file|\\.url|\\.ms)$" $key)) -}}
  {{- fail (printf "%sconfig.kafka.properties has the secret %q, and would stand in a ConfigMap for all to read: mount it by extraVolumes and name its file in %q, or put the whole file into a Secret and name that in existingConfigSecret.name." $at $key (printf "%s_file" $key)) -}}
  {{- end -}}
{{- end -}}
{{- range $pattern, $rule := dig "avro" "columns" (dict) $config -}}
  {{- if and (kindIs "map" $rule) (hasKey $rule "salt") -}}
  {{- fail (printf "%sconfig.avro.columns has a salt at %q, and it would stand in a ConfigMap for all to read: mount it by extraVolumes and name its file in salt_file, or put the whole file into a Secret and name that in existingConfigSecret.name." $at $pattern) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- define "walferry.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "walferry.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "walferry.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "walferry.selectorLabels" -}}
app.kubernetes.io/name: {{ include "walferry.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "walferry.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "walferry.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "walferry.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "walferry.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The Secret that the container's environment refers to; empty if there is none. */}}
{{- define "walferry.secretName" -}}
{{- if .Values.existingSecret.name -}}
{{- .Values.existingSecret.name -}}
{{- else if or .Values.secrets.postgresPassword .Values.secrets.schemaRegistryPassword .Values.secrets.schemaRegistryBearerToken -}}
{{- include "walferry.fullname" . -}}
{{- end -}}
{{- end -}}

{{/*
A TOML key: bare where TOML allows it, else quoted. JSON's escapes are a subset of those of TOML's basic strings.
*/}}
{{- define "walferry.toml.key" -}}
{{- if regexMatch "^[A-Za-z0-9_-]+$" . -}}{{ . }}{{- else -}}{{ toJson . }}{{- end -}}
{{- end -}}

{{/*
A TOML value. Not by toToml: YAML's numbers reach a template as floats, and it writes 5432 as 5432.0.
*/}}
{{- define "walferry.toml.value" -}}
{{- if kindIs "map" . -}}
{{- $parts := list -}}
{{- range $key, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $parts = append $parts (printf "%s = %s" (include "walferry.toml.key" $key) (include "walferry.toml.value" $value)) -}}
{{- end -}}
{{- end -}}
{ {{ join ", " $parts }} }
{{- else if kindIs "slice" . -}}
{{- $parts := list -}}
{{- range . -}}{{- $parts = append $parts (include "walferry.toml.value" .) -}}{{- end -}}
[{{ join ", " $parts }}]
{{- else -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{/*
A copy of a map whose scalars are strings: properties of librdkafka and of topics are strings, and YAML makes numbers and
booleans of `5` and `true`.
*/}}
{{- define "walferry.strings" -}}
{{- $strings := dict -}}
{{- range $key, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $strings $key (ternary $value (toJson $value) (kindIs "string" $value)) -}}
{{- end -}}
{{- end -}}
{{- toJson $strings -}}
{{- end -}}

{{/* walferry.toml: the keys without a section, then each section. A null removes a key. */}}
{{- define "walferry.toml" -}}
{{- range $key, $value := .Values.config -}}
{{- if not (or (kindIs "map" $value) (kindIs "invalid" $value)) }}
{{ include "walferry.toml.key" $key }} = {{ include "walferry.toml.value" $value }}
{{- end -}}
{{- end -}}
{{- range $section, $keys := .Values.config -}}
{{- if kindIs "map" $keys }}

[{{ include "walferry.toml.key" $section }}]
{{- range $key, $value := $keys -}}
{{- if not (kindIs "invalid" $value) -}}
{{- if and (kindIs "map" $value) (has $key (list "properties" "topic_config")) -}}
{{- $value = include "walferry.strings" $value | fromJson -}}
{{- end }}
{{ include "walferry.toml.key" $key }} = {{ include "walferry.toml.value" $value }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
What values.schema.json cannot say, or is not asked (`helm template --skip-schema-validation`): each conflict
with its keys and the cure.
*/}}
{{- define "walferry.validate" -}}
{{- if not (has (int .Values.replicaCount) (list 0 1)) -}}
{{- fail (printf "replicaCount is %v: a slot has one reader, so it is 0 or 1. For another pipeline make another release." .Values.replicaCount) -}}
{{- end -}}
{{- if .Values.existingConfigSecret.name -}}
  {{- if .Values.config -}}
  {{- fail "existingConfigSecret.name and config are both set: the Secret holds the whole file. Set config: null." -}}
  {{- end -}}
{{- else if not .Values.config -}}
{{- fail "config is empty: set it, or name a Secret with the whole file in existingConfigSecret.name." -}}
{{- end -}}
{{- $config := .Values.config | default dict -}}
{{- if dig "http" "listen" "" $config -}}
{{- fail "config.http.listen is set by the chart, for the probes and the Service to agree with it: use http.address and http.port." -}}
{{- end -}}
{{- range $path := list "postgres.password" "schema_registry.password" "schema_registry.bearer_token" -}}
  {{- $parts := splitList "." $path -}}
  {{- if dig (index $parts 0) (index $parts 1) "" $config -}}
  {{- fail (printf "config.%s would stand in a ConfigMap for all to read: use existingSecret, or secrets." $path) -}}
  {{- end -}}
{{- end -}}
{{- range $key, $value := dig "kafka" "properties" (dict) $config -}}
  {{- if and (regexMatch "(?i)(password|passphrase|secret|token|credential|\\.pem$|^sasl\\.(oauthbearer|jaas)\\.config$)" $key) (not (regexMatch "(_file|\\.url|\\.ms)$" $key)) -}}
  {{- fail (printf "config.kafka.properties has the secret %q, and would stand in a ConfigMap for all to read: mount it by extraVolumes and name its file in %q, or put the whole file into a Secret and name that in existingConfigSecret.name." $key (printf "%s_file" $key)) -}}
  {{- end -}}
{{- end -}}
{{- range $pattern, $rule := dig "avro" "columns" (dict) $config -}}
  {{- if and (kindIs "map" $rule) (hasKey $rule "salt") -}}
  {{- fail (printf "config.avro.columns has a salt at %q, and it would stand in a ConfigMap for all to read: mount it by extraVolumes and name its file in salt_file, or put the whole file into a Secret and name that in existingConfigSecret.name." $pattern) -}}
  {{- end -}}
{{- end -}}
{{- $secrets := .Values.secrets -}}
{{- if and .Values.existingSecret.name (or $secrets.postgresPassword $secrets.schemaRegistryPassword $secrets.schemaRegistryBearerToken) -}}
{{- fail "existingSecret.name and secrets are both set: keep one of them." -}}
{{- end -}}
{{- if and $secrets.schemaRegistryPassword $secrets.schemaRegistryBearerToken -}}
{{- fail "secrets.schemaRegistryPassword and secrets.schemaRegistryBearerToken are both set: the registry is given one of them." -}}
{{- end -}}
{{- if and .Values.existingSecret.name .Values.existingSecret.schemaRegistryPasswordKey .Values.existingSecret.schemaRegistryBearerTokenKey -}}
{{- fail "existingSecret.schemaRegistryPasswordKey and existingSecret.schemaRegistryBearerTokenKey are both set: the registry is given one of them." -}}
{{- end -}}
{{- $timeout := dig "shutdown_timeout" "30s" $config -}}
{{- if regexMatch "^[0-9]+(ms|s|m|h)$" $timeout -}}
  {{- $number := regexFind "^[0-9]+" $timeout | int -}}
  {{- $unit := regexFind "[a-z]+$" $timeout -}}
  {{- $seconds := ternary (div $number 1000) (mul $number (get (dict "s" 1 "m" 60 "h" 3600) $unit | default 1)) (eq $unit "ms") -}}
  {{- if le (int .Values.terminationGracePeriodSeconds) (int $seconds) -}}
  {{- fail (printf "terminationGracePeriodSeconds is %v, config.shutdown_timeout is %s: the pod would be killed while it drains. Make the first longer." .Values.terminationGracePeriodSeconds $timeout) -}}
  {{- end -}}
{{- end -}}
{{- end -}}

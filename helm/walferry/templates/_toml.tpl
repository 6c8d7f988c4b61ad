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

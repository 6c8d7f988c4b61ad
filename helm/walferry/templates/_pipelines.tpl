{{/*
Two maps as one: what stands in the second wins, key by key, also where it is false, 0 or empty. A null removes a key.
*/}}
{{- define "walferry.merged" -}}
{{- $merged := deepCopy (index . 0) -}}
{{- range $key, $value := index . 1 -}}
  {{- if kindIs "invalid" $value -}}
    {{- $_ := unset $merged $key -}}
  {{- else if and (kindIs "map" $value) (kindIs "map" (get $merged $key)) -}}
    {{- $_ := set $merged $key (include "walferry.merged" (list (get $merged $key) $value) | fromJson) -}}
  {{- else -}}
    {{- $_ := set $merged $key $value -}}
  {{- end -}}
{{- end -}}
{{- toJson $merged -}}
{{- end -}}

{{/*
Each pipeline's values by its key: those of the release, and over them those in `pipelines`. Without `pipelines` there is one,
whose key is empty.
*/}}
{{- define "walferry.pipelines" -}}
{{- $pipelines := dict -}}
{{- $shared := omit .Values "pipelines" -}}
{{- range $key, $own := .Values.pipelines -}}
  {{- $own = $own | default dict -}}
  {{- $values := include "walferry.merged" (list $shared $own) | fromJson -}}
  {{- if and (dig "existingConfigSecret" "name" "" $own) (not $own.config) -}}
    {{- $_ := unset $values "config" -}}
  {{- else if and $values.config (not (dig "config" "name" "" $own)) -}}
    {{- $_ := set $values.config "name" $key -}}
  {{- end -}}
  {{- $_ := set $pipelines $key $values -}}
{{- end -}}
{{- if not .Values.pipelines -}}
  {{- $_ := set $pipelines "" $shared -}}
{{- end -}}
{{- toJson $pipelines -}}
{{- end -}}

{{/* The names of a pipeline's objects. */}}
{{- define "walferry.pipeline.fullname" -}}
{{- if .key -}}
{{- printf "%s-%s" (include "walferry.fullname" .) .key -}}
{{- else -}}
{{- include "walferry.fullname" . -}}
{{- end -}}
{{- end -}}

{{/* What the pods of a pipeline have in common, the standby's among them. */}}
{{- define "walferry.pipeline.selectorLabels" -}}
{{ include "walferry.selectorLabels" . }}
walferry/pipeline: {{ default .Release.Name .key }}
{{- end -}}

{{- define "walferry.pipeline.labels" -}}
{{ include "walferry.labels" . }}
walferry/pipeline: {{ default .Release.Name .key }}
{{- end -}}

{{/* The Secret that the container's environment refers to; empty if there is none. */}}
{{- define "walferry.pipeline.secretName" -}}
{{- if .Values.existingSecret.name -}}
{{- .Values.existingSecret.name -}}
{{- else if or .Values.secrets.postgresPassword .Values.secrets.schemaRegistryPassword .Values.secrets.schemaRegistryBearerToken -}}
{{- include "walferry.pipeline.fullname" . -}}
{{- end -}}
{{- end -}}

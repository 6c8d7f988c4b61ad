{{/*
A Deployment of one instance. `component` is pipeline or standby: the two are alike, and whichever comes first to the slot
streams.
*/}}
{{- define "walferry.pipeline.deployment" -}}
{{- $secret := include "walferry.pipeline.secretName" . -}}
{{- $existing := .Values.existingSecret -}}
{{- $fullname := include "walferry.pipeline.fullname" . -}}
{{- $name := ternary (printf "%s-standby" $fullname) $fullname (eq .component "standby") -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels:
    {{- include "walferry.pipeline.labels" . | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  replicas: {{ .Values.replicaCount }}
  # The old pod lets go of the slot before the new one asks for it.
  strategy:
    type: Recreate
  revisionHistoryLimit: 3
  selector:
    matchLabels:
      {{- include "walferry.pipeline.selectorLabels" . | nindent 6 }}
      app.kubernetes.io/component: {{ .component }}
  template:
    metadata:
      annotations:
        # A changed configuration or password starts a new pod.
        {{- if not .Values.existingConfigSecret.name }}
        checksum/config: {{ include "walferry.toml" . | sha256sum }}
        {{- end }}
        {{- if and $secret (not $existing.name) }}
        checksum/secret: {{ toJson .Values.secrets | sha256sum }}
        {{- end }}
        {{- with .Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      labels:
        {{- include "walferry.pipeline.labels" . | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
        {{- with .Values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "walferry.serviceAccountName" . }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ int .Values.terminationGracePeriodSeconds }}
      {{- with .Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      securityContext:
        {{- toYaml .Values.podSecurityContext | nindent 8 }}
      containers:
        - name: walferry
          image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          args:
            - run
            - -c
            - /etc/walferry/walferry.toml
            {{- with .Values.acceptGap }}
            - --accept-gap
            - {{ . | quote }}
            {{- end }}
          env:
            - name: WALFERRY__HTTP__LISTEN
              value: {{ printf (ternary "[%s]:%d" "%s:%d" (contains ":" .Values.http.address)) .Values.http.address (int .Values.http.port) | quote }}
            {{- if and (ne .Values.spool.type "none") (ne .Values.spool.mountPath "/tmp") }}
            - name: WALFERRY__REPLICATION__SPOOL_DIR
              value: {{ .Values.spool.mountPath | quote }}
            {{- end }}
            {{- if or .Values.secrets.postgresPassword (and $existing.name $existing.postgresPasswordKey) }}
            - name: WALFERRY__POSTGRES__PASSWORD
              valueFrom:
                secretKeyRef:
                  name: {{ $secret }}
                  key: {{ ternary $existing.postgresPasswordKey "postgres-password" (ne $existing.name "") }}
            {{- end }}
            {{- if or .Values.secrets.schemaRegistryPassword (and $existing.name $existing.schemaRegistryPasswordKey) }}
            - name: WALFERRY__SCHEMA_REGISTRY__PASSWORD
              valueFrom:
                secretKeyRef:
                  name: {{ $secret }}
                  key: {{ ternary $existing.schemaRegistryPasswordKey "schema-registry-password" (ne $existing.name "") }}
            {{- end }}
            {{- if or .Values.secrets.schemaRegistryBearerToken (and $existing.name $existing.schemaRegistryBearerTokenKey) }}
            - name: WALFERRY__SCHEMA_REGISTRY__BEARER_TOKEN
              valueFrom:
                secretKeyRef:
                  name: {{ $secret }}
                  key: {{ ternary $existing.schemaRegistryBearerTokenKey "schema-registry-bearer-token" (ne $existing.name "") }}
            {{- end }}
            {{- with .Values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- with .Values.extraEnvFrom }}
          envFrom:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            - name: http
              containerPort: {{ int .Values.http.port }}
              protocol: TCP
          startupProbe:
            httpGet:
              path: /health/live
              port: http
            {{- toYaml .Values.probes.startup | nindent 12 }}
          livenessProbe:
            httpGet:
              path: /health/live
              port: http
            {{- toYaml .Values.probes.liveness | nindent 12 }}
          readinessProbe:
            httpGet:
              # Of a pair one always waits for the slot, and that is as it should be.
              path: {{ ternary "/health/live" "/health/ready" .Values.standby.enabled }}
              port: http
            {{- toYaml .Values.probes.readiness | nindent 12 }}
          securityContext:
            {{- toYaml .Values.securityContext | nindent 12 }}
          {{- with .Values.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          volumeMounts:
            - name: config
              mountPath: /etc/walferry
              readOnly: true
            {{- if ne .Values.spool.type "none" }}
            - name: spool
              mountPath: {{ .Values.spool.mountPath }}
            {{- end }}
            {{- with .Values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: config
          {{- if .Values.existingConfigSecret.name }}
          secret:
            secretName: {{ .Values.existingConfigSecret.name }}
            items:
              - key: {{ .Values.existingConfigSecret.key }}
                path: walferry.toml
          {{- else }}
          configMap:
            name: {{ $fullname }}
          {{- end }}
        {{- with include "walferry.pipeline.spoolVolume" (dict "spool" .Values.spool "claim" (printf "%s-spool" $name)) }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with .Values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with include "walferry.pipeline.affinity" . | fromJson }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- range . }}
        {{- $constraint := deepCopy . }}
        {{- if not .labelSelector }}
        {{- $_ := set $constraint "labelSelector" (dict "matchLabels" (include "walferry.pipeline.selectorLabels" $ | fromYaml)) }}
        {{- end }}
        - {{- toYaml $constraint | nindent 10 }}
        {{- end }}
      {{- end }}
{{- end -}}

{{/* The directory of large transactions that are still running. What is in it is of no use to the next start. */}}
{{- define "walferry.pipeline.spoolVolume" -}}
{{- $spool := .spool -}}
{{- if eq $spool.type "emptyDir" -}}
- name: spool
  emptyDir:
    sizeLimit: {{ $spool.size }}
{{- else if eq $spool.type "ephemeral" -}}
- name: spool
  ephemeral:
    volumeClaimTemplate:
      spec:
        {{- include "walferry.pipeline.spoolClaim" $spool | nindent 8 }}
{{- else if eq $spool.type "persistent" -}}
- name: spool
  persistentVolumeClaim:
    claimName: {{ default .claim $spool.existingClaim }}
{{- end -}}
{{- end -}}

{{- define "walferry.pipeline.spoolClaim" -}}
accessModes: [ReadWriteOnce]
{{- with .storageClassName }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests:
    storage: {{ .size }}
{{- end -}}

{{/* The affinity of the values; and where a pair says nothing of its own, its two pods keep apart. */}}
{{- define "walferry.pipeline.affinity" -}}
{{- $affinity := deepCopy (.Values.affinity | default dict) -}}
{{- if and .Values.standby.enabled (not $affinity.podAntiAffinity) (ne .Values.standby.antiAffinity "none") -}}
  {{- $term := dict "topologyKey" .Values.standby.topologyKey "labelSelector" (dict "matchLabels" (include "walferry.pipeline.selectorLabels" . | fromYaml)) -}}
  {{- if eq .Values.standby.antiAffinity "required" -}}
    {{- $_ := set $affinity "podAntiAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $term)) -}}
  {{- else -}}
    {{- $_ := set $affinity "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $term))) -}}
  {{- end -}}
{{- end -}}
{{- toJson $affinity -}}
{{- end -}}

{{- define "tessera.labels" -}}
app.kubernetes.io/name: tessera
app.kubernetes.io/instance: {{ .root.Values.install }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "tessera.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "tessera.hostname" -}}
{{ regexReplaceAll ":[0-9]+$" (urlParse .Values.url).host "" }}
{{- end }}

{{/* Where requests for a person's apps, live pages, terminals and SSH go. */}}
{{- define "tessera.live" -}}
{{ .Values.install }}-{{ ternary "live" "web" .Values.live.enabled }}
{{- end }}

{{- define "tessera.secret" -}}
{{ .Values.existingSecret | default (printf "%s-secrets" .Values.install) }}
{{- end }}

{{- define "tessera.hosts" -}}
{{- $hosts := list (include "tessera.hostname" .) "localhost" }}
{{- range $name := list "web" "live" }}
{{- range $rest := list "" (printf ".%s" $.Release.Namespace) (printf ".%s.svc" $.Release.Namespace) (printf ".%s.svc.cluster.local" $.Release.Namespace) }}
{{- $hosts = append $hosts (printf "%s-%s%s" $.Values.install $name $rest) }}
{{- end }}
{{- end }}
{{- join "," (uniq $hosts) }}
{{- end }}

{{/* What every process of the platform is told. */}}
{{- define "tessera.env" -}}
- {name: TESSERA_PUBLIC_URL, value: {{ .Values.url | quote }}}
- {name: TESSERA_APPS_URL, value: {{ .Values.appsUrl | quote }}}
- {name: TESSERA_HOSTS, value: {{ include "tessera.hosts" . | quote }}}
- {name: TESSERA_DATA, value: /var/lib/tessera}
- name: TESSERA_SECRET_KEY
  valueFrom: {secretKeyRef: {name: {{ include "tessera.secret" . }}, key: secret-key}}
{{- if .Values.bundled.enabled }}
- {name: PGHOST, value: {{ .Values.install }}-postgres}
- {name: PGUSER, value: tessera}
- {name: PGDATABASE, value: tessera}
- name: PGPASSWORD
  valueFrom: {secretKeyRef: {name: {{ .Values.install }}-bundled, key: postgres-password}}
- name: VALKEY_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .Values.install }}-bundled, key: valkey-password}}
- {name: TESSERA_VALKEY_URL, value: "redis://:$(VALKEY_PASSWORD)@{{ .Values.install }}-valkey:6379"}
{{- else }}
- {name: PGHOST, value: {{ required "database.host: name the PostgreSQL server, or set bundled.enabled=true to try Tessera out." .Values.database.host | quote }}}
- {name: PGPORT, value: {{ .Values.database.port | quote }}}
- {name: PGUSER, value: {{ .Values.database.user | quote }}}
- {name: PGDATABASE, value: {{ .Values.database.name | quote }}}
- {name: PGSSLMODE, value: {{ .Values.database.sslMode | quote }}}
- name: PGPASSWORD
  valueFrom: {secretKeyRef: {name: {{ required "database.existingSecret: name the Secret that has the database's password." .Values.database.existingSecret }}, key: {{ .Values.database.passwordKey }}}}
- name: TESSERA_VALKEY_URL
  valueFrom: {secretKeyRef: {name: {{ required "valkey.existingSecret: name the Secret that has the URL of Valkey or Redis." .Values.valkey.existingSecret }}, key: {{ .Values.valkey.urlKey }}}}
{{- end }}
- {name: TESSERA_SSH_HOST, value: 0.0.0.0}
- {name: TESSERA_SSH_PORT, value: {{ .Values.ssh.port | quote }}}
- {name: TESSERA_RUNTIME, value: runtimes.kubernetes.runtime.KubernetesRuntime}
- {name: TESSERA_INSTALL, value: {{ .Values.install }}}
- {name: TESSERA_KUBERNETES_ACCOUNT, value: "{{ .Release.Namespace }}:{{ .Values.install }}"}
- {name: TESSERA_IMAGE, value: {{ .Values.jobs.image | quote }}}
- {name: TESSERA_IMAGE_PULL, value: {{ .Values.jobs.pull }}}
- {name: TESSERA_PULL_SECRET, value: {{ .Values.jobs.pullSecret | quote }}}
{{- with .Values.jobs.notebookImage }}
- {name: TESSERA_NOTEBOOK_IMAGE, value: {{ . | quote }}}
{{- end }}
- {name: TESSERA_STORAGE_CLASS, value: {{ .Values.files.storageClass | quote }}}
- {name: TESSERA_STORAGE_SIZE, value: {{ .Values.files.size | quote }}}
- {name: TESSERA_STORAGE_ACCESS, value: {{ .Values.files.accessMode }}}
- {name: TESSERA_NODES, value: {{ .Values.jobs.nodes | quote }}}
- {name: TESSERA_TOLERATED, value: {{ join "," .Values.jobs.tolerated | quote }}}
- {name: TESSERA_JOBS_PRIVATE, value: {{ join "," .Values.jobs.private | quote }}}
- {name: TESSERA_KUBERNETES_QPS, value: {{ .Values.jobs.requestsPerSecond | quote }}}
- {name: TESSERA_KUBERNETES_BURST, value: {{ .Values.jobs.requestsAtOnce | quote }}}
{{- with .Values.mail }}
{{- if .host }}
- {name: TESSERA_MAIL_HOST, value: {{ .host | quote }}}
- {name: TESSERA_MAIL_PORT, value: {{ .port | quote }}}
- {name: TESSERA_MAIL_USER, value: {{ .user | quote }}}
- {name: TESSERA_MAIL_TLS, value: {{ ternary "1" "0" .tls | quote }}}
- {name: TESSERA_MAIL_FROM, value: {{ .from | quote }}}
{{- if .existingSecret }}
- name: TESSERA_MAIL_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .existingSecret }}, key: password}}
{{- end }}
{{- end }}
{{- end }}
{{- $engine := .Values.seriesEngine }}
{{- range $name, $url := dict "TESSERA_REMOTE_WRITE" $engine.writeUrl "TESSERA_REMOTE_READ" $engine.readUrl }}
{{- if $url }}
- {name: {{ $name }}_URL, value: {{ $url | quote }}}
{{- if $engine.user }}
- {name: {{ $name }}_USER, value: {{ $engine.user | quote }}}
{{- end }}
{{- if $engine.existingSecret }}
{{- $key := ternary "password" "token" (not (empty $engine.user)) }}
- name: {{ $name }}_{{ upper $key }}
  valueFrom: {secretKeyRef: {name: {{ $engine.existingSecret }}, key: {{ $key }}}}
{{- end }}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.settings }}
- {name: {{ $name }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- end }}

{{/* A container may do nothing that it need not. people: it gives files to their persons, and becomes them for a moment. */}}
{{- define "tessera.fence" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
seccompProfile: {type: RuntimeDefault}
{{- if and .people .root.Values.files.asPeople }}
runAsUser: 0
runAsGroup: 0
capabilities: {drop: [ALL], add: [CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID]}
{{- else }}
runAsNonRoot: true
runAsUser: 990
runAsGroup: 990
capabilities: {drop: [ALL]}
{{- end }}
{{- end }}

{{/* Of every pod: where it may run, and as whom it speaks to the cluster. */}}
{{- define "tessera.pod" -}}
serviceAccountName: {{ ternary .root.Values.install "default" (default false .rights) }}
automountServiceAccountToken: {{ default false .rights }}
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- {name: {{ . }}}
{{- end }}
{{- end }}
{{- with .root.Values.pods.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.pods.tolerations }}
tolerations: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .root.Values.pods.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "tessera.volumes" -}}
- {name: tmp, emptyDir: {}}
- name: files
  persistentVolumeClaim: {claimName: {{ .Values.files.existingClaim | default (printf "%s-files" .Values.install) }}}
{{- end }}

{{- define "tessera.mounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: files, mountPath: /var/lib/tessera}
{{- end }}

{{/* Whether a worker or the beat goes round: it touches this file each 10 s (platform/config/heartbeat.py). */}}
{{- define "tessera.rounds" -}}
[sh, -c, 'test -n "$(find /tmp/alive -mmin -3)"']
{{- end }}

{{/* One kind of process. dict: root, name, role, command; people, rights, http, metrics, rounds, alone as they are needed. */}}
{{- define "tessera.deployment" -}}
{{- $values := index .root.Values .name -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .root.Values.install }}-{{ .name }}
  labels: {{- include "tessera.labels" . | nindent 4 }}
spec:
  replicas: {{ default 1 $values.replicas }}
  {{- if .alone }}
  strategy: {type: Recreate}
  {{- else }}
  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  {{- end }}
  selector:
    matchLabels: {{- include "tessera.labels" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "tessera.labels" . | nindent 8 }}
      {{- with .root.Values.pods.annotations }}
      annotations: {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      {{- include "tessera.pod" . | nindent 6 }}
      terminationGracePeriodSeconds: {{ default 30 .grace }}
      initContainers:
      - name: database  # the setup job brings it up to date
        image: {{ include "tessera.image" .root }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        command: [sh, -c, "until python manage.py migrate --check >/dev/null 2>&1; do sleep 2; done"]
        env: {{- include "tessera.env" .root | nindent 8 }}
        securityContext: {{- include "tessera.fence" (dict "root" .root) | nindent 10 }}
        volumeMounts:
        - {name: tmp, mountPath: /tmp}
      containers:
      - name: {{ .name }}
        image: {{ include "tessera.image" .root }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        {{- with .command }}
        command: {{ toJson . }}
        {{- end }}
        env:
        - {name: TESSERA_ROLE, value: {{ .role }}}
        - {name: TESSERA_POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        {{- if .rounds }}
        - {name: TESSERA_ALIVE, value: /tmp/alive}
        - {name: TESSERA_METRICS_LISTEN, value: "0.0.0.0:9090"}
        {{- end }}
        {{- include "tessera.env" .root | nindent 8 }}
        securityContext: {{- include "tessera.fence" . | nindent 10 }}
        resources: {{- toYaml $values.resources | nindent 10 }}
        {{- if .http }}
        ports:
        - {name: http, containerPort: 8470}
        - {name: ssh, containerPort: {{ .root.Values.ssh.port }}}
        startupProbe: {httpGet: {path: /livez, port: http}, periodSeconds: 2, timeoutSeconds: 5, failureThreshold: 90}
        livenessProbe: {httpGet: {path: /livez, port: http}, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6}
        readinessProbe: {httpGet: {path: /readyz, port: http}, periodSeconds: 5, timeoutSeconds: 5}
        lifecycle: {preStop: {exec: {command: [sleep, "5"]}}}  # until no proxy sends it requests
        {{- end }}
        {{- if .metrics }}
        ports:
        - {name: metrics, containerPort: 9090}
        startupProbe: {httpGet: {path: /livez, port: metrics}, periodSeconds: 2, timeoutSeconds: 5, failureThreshold: 90}
        livenessProbe: {httpGet: {path: /livez, port: metrics}, periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6}
        {{- end }}
        {{- if .rounds }}
        ports:
        - {name: metrics, containerPort: 9090}
        startupProbe: {exec: {command: {{ include "tessera.rounds" . }}}, periodSeconds: 5, timeoutSeconds: 10, failureThreshold: 60}
        livenessProbe: {exec: {command: {{ include "tessera.rounds" . }}}, periodSeconds: 30, timeoutSeconds: 10, failureThreshold: 3}
        {{- end }}
        volumeMounts: {{- include "tessera.mounts" .root | nindent 8 }}
      volumes: {{- include "tessera.volumes" .root | nindent 6 }}
{{- end }}

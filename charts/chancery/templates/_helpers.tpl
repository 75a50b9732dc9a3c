{{/* The name of everything. A release that is not called chancery has its own. */}}
{{- define "chancery.name" -}}
{{- .Values.fullnameOverride | default .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "chancery.account" -}}
{{- .Values.serviceAccount.name | default (include "chancery.name" .) -}}
{{- end -}}

{{/* Another release has another authority. */}}
{{- define "chancery.caSecret" -}}
{{- .Values.caSecret | default (printf "%s-ca" (include "chancery.name" .)) -}}
{{- end -}}

{{/* By what its Pods are found. */}}
{{- define "chancery.selector" -}}
app.kubernetes.io/name: chancery
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: control-plane
{{- end -}}

{{- define "chancery.labels" -}}
{{ include "chancery.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "chancery.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default (printf "v%s" .Chart.AppVersion)) -}}
{{- end -}}
{{- end -}}

{{/* The static configuration (EnvoyGateway). */}}
{{- define "chancery.config" -}}
{{- $watch := dict -}}
{{- if .Values.watch.namespaces -}}
{{- $watch = dict "watch" (dict "type" "Namespaces" "namespaces" .Values.watch.namespaces) -}}
{{- else if .Values.watch.namespaceSelector -}}
{{- $watch = dict "watch" (dict "type" "NamespaceSelector" "namespaceSelector" .Values.watch.namespaceSelector) -}}
{{- end -}}
{{- $kubernetes := merge (deepCopy $watch) (dict "deploy" (deepCopy .Values.deploy)) -}}
{{- $apis := dict -}}
{{- with .Values.rawResources -}}
{{- $apis = merge $apis (dict "rawResources" .) -}}
{{- end -}}
{{- if .Values.allowLinkLocal -}}
{{- $apis = merge $apis (dict "enableLinkLocalBackends" true) -}}
{{- end -}}
{{- with .Values.proxyExtraArgs -}}
{{- $apis = merge $apis (dict "enableExtraArgs" true "extraArgs" .) -}}
{{- end -}}
{{- $spec := dict
  "apiVersion" "gateway.envoyproxy.io/v1alpha1"
  "kind" "EnvoyGateway"
  "gateway" (dict "controllerName" .Values.controllerName)
  "provider" (dict "type" "Kubernetes" "kubernetes" $kubernetes)
  "unsupportedPolicies" .Values.unsupportedPolicies
-}}
{{- if $apis -}}
{{- $spec = merge $spec (dict "extensionApis" $apis) -}}
{{- end -}}
{{- mergeOverwrite $spec (deepCopy .Values.config) | toYaml -}}
{{- end -}}

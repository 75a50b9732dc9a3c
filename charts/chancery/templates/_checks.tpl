{{/* What does not go together and no schema can say. */}}
{{- define "chancery.checks" -}}
{{- /* Rights and the class are made of the values: a configuration that says otherwise would not fit them. */}}
{{- $config := .Values.config -}}
{{- $kubernetes := dig "provider" "kubernetes" dict $config -}}
{{- if hasKey (dig "gateway" dict $config) "controllerName" -}}
{{- fail "config.gateway.controllerName: say it with controllerName, of which the GatewayClass is made too" -}}
{{- end -}}
{{- if hasKey $kubernetes "watch" -}}
{{- fail "config.provider.kubernetes.watch: say it with watch, of which the rights are made too" -}}
{{- end -}}
{{- if hasKey $kubernetes "deploy" -}}
{{- fail "config.provider.kubernetes.deploy: say it with deploy, of which the rights are made too" -}}
{{- end -}}
{{- /* Two lists of what is allowed would be read as one. */}}
{{- $values := dict
  "rawResources" "rawResources"
  "enableLinkLocalBackends" "allowLinkLocal"
  "enableExtraArgs" "proxyExtraArgs"
  "extraArgs" "proxyExtraArgs"
-}}
{{- range $field, $value := $values -}}
{{- if hasKey (dig "extensionApis" dict $config) $field -}}
{{- fail (printf "config.extensionApis.%s: say it with %s" $field $value) -}}
{{- end -}}
{{- end -}}
{{- if hasKey $config "unsupportedPolicies" -}}
{{- fail "config.unsupportedPolicies: say it with unsupportedPolicies" -}}
{{- end -}}
{{- include "chancery.checkClasses" . -}}
{{- $replicas := int .Values.replicas -}}
{{- if and (dig "leaderElection" "disable" false $kubernetes) (gt $replicas 1) -}}
{{- fail "config.provider.kubernetes.leaderElection.disable: without an election there can be one replica only (replicas: 1)" -}}
{{- end -}}
{{- $least := .Values.podDisruptionBudget.minAvailable -}}
{{- /* A share is rounded up. */}}
{{- if hasSuffix "%" (toString $least) -}}
{{- $least = div (add (mul (trimSuffix "%" $least | int) $replicas) 99) 100 -}}
{{- end -}}
{{- if and .Values.podDisruptionBudget.create (gt $replicas 1) (ge (int $least) $replicas) -}}
{{- fail (printf "podDisruptionBudget.minAvailable: with %d replicas it lets none go, and no node can be drained" $replicas) -}}
{{- end -}}
{{- end -}}

{{/* The API server refuses another name in a class, after the rest of the release was changed. Without a cluster (helm template) there is no class. */}}
{{- define "chancery.checkClasses" -}}
{{- if .Capabilities.APIVersions.Has "gateway.networking.k8s.io/v1/GatewayClass" -}}
{{- $new := .Values.controllerName -}}
{{- if .Values.gatewayClass.create -}}
{{- $class := lookup "gateway.networking.k8s.io/v1" "GatewayClass" "" .Values.gatewayClass.name | default dict -}}
{{- include "chancery.checkClass" (dict "class" $class "new" $new "before" (dig "spec" "controllerName" $new $class)) -}}
{{- end -}}
{{- /* Classes that the release serves so far, made by it or not. */}}
{{- $map := lookup "v1" "ConfigMap" .Release.Namespace (include "chancery.name" .) | default dict -}}
{{- $config := dig "data" "chancery.yaml" "" $map | fromYaml -}}
{{- $before := dig "gateway" "controllerName" $new $config -}}
{{- if and .Release.IsUpgrade (ne $before $new) -}}
{{- range (lookup "gateway.networking.k8s.io/v1" "GatewayClass" "" "").items -}}
{{- if eq (dig "spec" "controllerName" "" .) $before -}}
{{- include "chancery.checkClass" (dict "class" . "new" $new "before" $before) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "chancery.checkClass" -}}
{{- if ne .before .new -}}
{{- fail (printf "controllerName: GatewayClass %s has %s, which cannot be changed to %s: its Gateways would no longer be served. Keep the name with --set controllerName=%s; for another one install a second release with another gatewayClass.name (docs/upgrade.md)" .class.metadata.name .before .new .before) -}}
{{- end -}}
{{- end -}}

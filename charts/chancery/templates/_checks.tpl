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

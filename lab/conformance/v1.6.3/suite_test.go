// Package conformance runs the conformance suite of the Gateway API, as it is released, on the cluster that KUBECONFIG names.
package conformance

import (
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
)

// TestConformance reads the suite's own flags and runs what they ask for.
func TestConformance(t *testing.T) {
	conformance.RunConformance(t)
}

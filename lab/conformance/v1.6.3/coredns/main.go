// Coredns is CoreDNS with the plugins that the suite's Corefile names, and no other: the Kubernetes and cloud clients of the rest are not needed.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/whoami"
)

func main() {
	dnsserver.Directives = []string{"errors", "log", "whoami", "forward"}
	coremain.Run()
}

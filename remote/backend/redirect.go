package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// maxRedirects is the largest number of redirects of one request.
const maxRedirects = 5

// redirectPolicy returns the http.Client.CheckRedirect for a registry. Registries redirect requests for a
// blob to the service that stores it. But a registry must not make this machine send requests to
// hosts that the registry cannot reach. So only GET and HEAD are redirected, and not to this machine
// or a private network, unless the registry itself is there.
func redirectPolicy(registry string) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("the registry redirects without an end")
		}
		if m := via[0].Method; m != http.MethodGet && m != http.MethodHead {
			return fmt.Errorf("the registry redirects a %s to %s: that is not followed", m, req.URL.Host)
		}
		if req.URL.Host == registry || isPrivate(req.Context(), registry) || !isPrivate(req.Context(), req.URL.Host) {
			return nil
		}

		return fmt.Errorf("the registry redirects to %s, in a private network: that is not followed", req.URL.Host)
	}
}

// isPrivate reports whether an address of a host is on this machine or in a private network. It returns false for a
// host that this machine cannot look up, because only a proxy can connect to such a host.
func isPrivate(ctx context.Context, host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}

	host = strings.Trim(host, "[]") // an IPv6 address without a port is in brackets
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()

	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return false
	}

	for _, a := range addresses {
		a = a.Unmap()
		if !a.IsGlobalUnicast() || a.IsPrivate() || carrierGradeNAT.Contains(a) {
			return true
		}
	}

	return false
}

// carrierGradeNAT is the shared address space of RFC 6598. Some cloud providers serve metadata there.
var carrierGradeNAT = netip.MustParsePrefix("100.64.0.0/10")

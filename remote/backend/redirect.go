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

// maxRedirects is how many answers may lead elsewhere before a request fails.
const maxRedirects = 5

// redirects follows those that registries use, from a blob to where it is kept. A registry must not
// have this machine ask others in its name: only what reads is repeated elsewhere, and nothing on
// this machine or in a private network, unless the registry is there itself.
func redirects(registry string) func(*http.Request, []*http.Request) error {
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

// isPrivate reports whether a host is, or has an address, on this machine or in a private network.
// A host without an address here is a proxy's to find.
func isPrivate(ctx context.Context, host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]") // an address of IPv6 without a port
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return false
	}
	for _, a := range addresses {
		a = a.Unmap()
		if !a.IsGlobalUnicast() || a.IsPrivate() || carrierGrade.Contains(a) {
			return true
		}
	}
	return false
}

// carrierGrade are the addresses of RFC 6598. Providers of clouds serve metadata there, too.
var carrierGrade = netip.MustParsePrefix("100.64.0.0/10")

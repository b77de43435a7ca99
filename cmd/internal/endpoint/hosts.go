package endpoint

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// TestHostFlag is the flag that permits a host beyond loopback.
const TestHostFlag = "i-may-test-this-host"

// CheckHost reports, as a [store.ErrInvalid], that the host of a URL is neither loopback nor
// among those that may be tested.
//
// Loopback is localhost and the addresses that mean this machine, as they are usually written.
// Another name is not, even if it leads here: who answers for the name can let it lead
// elsewhere in the next moment. For the same reason [dialer] looks at the address that
// localhost leads to.
func CheckHost(target *url.URL, permitted []string) error {
	host := target.Hostname()
	if strings.ContainsFunc(host, func(r rune) bool { return !isHostCharacter(r) }) {
		return store.Invalidf("the host %q has a character that no host has; write it in its ASCII form", host)
	}
	if isLoopback(host) || isPermitted(host, permitted) {
		return nil
	}
	return store.Invalidf("%s is not on this machine; if you may send it such requests, add --%s %s", host, TestHostFlag, host)
}

// isHostCharacter reports whether a character can be in a name or an address. What follows from
// a host is safe to paste then.
func isHostCharacter(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._:%", r)
}

// isPermitted reports whether a host is one of those that may be tested.
func isPermitted(host string, permitted []string) bool {
	for _, one := range permitted {
		if plainHost(one) == plainHost(host) {
			return true
		}
	}
	return false
}

// plainHost is a host as it is compared: without case, brackets and the dot at the end.
func plainHost(host string) string {
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

func isLoopback(host string) bool {
	if plainHost(host) == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.WithZone("").Unmap().IsLoopback()
}

// dialer returns what connects to a host that [CheckHost] let through. For loopback it refuses
// an address beyond it, whatever localhost leads to.
func dialer(host string) *net.Dialer {
	d := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: false}}
	if isLoopback(host) {
		d.ControlContext = func(_ context.Context, network, address string, _ syscall.RawConn) error {
			if strings.HasPrefix(network, "unix") {
				return nil
			}
			to, err := netip.ParseAddrPort(address)
			if err != nil || !to.Addr().WithZone("").Unmap().IsLoopback() {
				return store.Invalidf("%s leads to %s, which is not on this machine", host, address)
			}
			return nil
		}
	}
	return d
}

// unlimited is how long a request may take that has no other bound.
const unlimited = 30 * time.Second

package endpoint

import (
	"net"
	"net/netip"
	"net/url"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// TestHostFlag is the flag that permits a host beyond loopback.
const TestHostFlag = "i-may-test-this-host"

// CheckHost reports, as a [limiter.ErrInvalid], that the host of a URL is neither loopback nor
// among those that may be tested.
func CheckHost(target *url.URL, permitted []string) error {
	host := target.Hostname()
	if isLoopback(host) {
		return nil
	}
	for _, one := range permitted {
		if one == host {
			return nil
		}
	}
	return limiter.Invalidf("%s is not on this machine; if you may send it such requests, add --%s %s", host, TestHostFlag, host)
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback() || net.ParseIP(host).IsLoopback()
}

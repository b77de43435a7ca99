package page

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/serve/refusal"
)

// onlyReads refuses all methods that could change something.
func onlyReads(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			refusal.Write(w, http.StatusMethodNotAllowed, outcome.Usage.Word, "the page can only be read, by GET and HEAD")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withHeaders tells browsers to run and show only what this page has, and to show it nowhere else.
func withHeaders(next http.Handler) http.Handler {
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; " +
		"form-action 'none'; frame-ancestors 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// ownNames answers only requests for a name of this machine that nobody else can give it. A page of a stranger can make
// its own name resolve to 127.0.0.1, and then read what is there.
func ownNames(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isOwnName(r.Host) {
			refusal.Write(w, http.StatusMisdirectedRequest, outcome.Unauthorized.Word,
				"without access tokens the page is only at localhost and 127.0.0.1, by these names")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isOwnName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.Unmap().IsLoopback()
}

// ownPage refuses what other pages ask for. They could not read the answer, but would take the places of those who look.
func ownPage(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
			refusal.Write(w, http.StatusForbidden, outcome.Unauthorized.Word, "another page asks; open this one by itself")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// client returns who asks: an IPv4 address, or the /64 of an IPv6 address, as one machine has all of it.
func client(r *http.Request) string {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil { // of a socket
		return "local"
	}
	ip := address.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	network, err := ip.Prefix(64)
	if err != nil {
		return ip.String()
	}
	return network.String()
}

package api

import (
	"cmp"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The fields in which proxies say what they were asked: those of Traefik and Caddy, and those
// that configurations of nginx use.
var (
	methodFields = []string{"X-Forwarded-Method", "X-Original-Method"}
	targetFields = []string{"X-Forwarded-Uri", "X-Original-Uri", "X-Original-Url"}
	hostFields   = []string{"X-Forwarded-Host"}
)

// originalRequest is the request that a proxy asks about with r. path is what r's own path has
// behind the policy: some proxies put the path of the original request there. It is empty if r's
// ends with the policy, and "/" says that the original path is that: else a client could add a field
// that names another one.
//
// A client can send such fields itself, and a proxy passes on those that it does not set. So
// where several say the same, all must agree: then the proxy's own is among them.
func originalRequest(r *http.Request, path string) (*http.Request, error) {
	method, err := said(r, methodFields)
	if err != nil {
		return nil, err
	}
	host, err := said(r, hostFields)
	if err != nil {
		return nil, err
	}
	target, err := originalTarget(r)
	switch {
	case err != nil:
		return nil, err
	case target == nil:
		target = &url.URL{Path: cmp.Or(path, "/"), RawQuery: r.URL.RawQuery}
	case path != "" && path != target.Path:
		return nil, store.Invalidf("the path %q behind the policy and a field of the request name different requests", shorten(path))
	}
	original := &http.Request{Method: r.Method, URL: target, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor,
		Header: r.Header, Host: r.Host, RemoteAddr: r.RemoteAddr, TLS: r.TLS, Body: http.NoBody,
		ContentLength: -1} // r says its own
	if method != "" {
		original.Method = method
	}
	switch {
	case host != "":
		original.Host = host
	case target.Host != "":
		original.Host = target.Host
	}
	return original.WithContext(r.Context()), nil
}

// said returns what one of the fields says, which the others that are there must say, too. It
// is empty if there is none.
func said(r *http.Request, fields []string) (value string, err error) {
	in := ""
	for _, field := range fields {
		for _, each := range r.Header[field] {
			switch {
			case each == "":
			case in == "":
				value, in = each, field
			case each != value:
				return "", disagreement(in, value, field, each)
			}
		}
	}
	return value, nil
}

func disagreement(field, value, other, otherValue string) error {
	return store.Invalidf("%s is %q and %s is %q; the proxy must set or remove both, so that no client can say what it asked for",
		field, shorten(value), other, shorten(otherValue))
}

// originalTarget returns the address of the original request, or nil if no field says it.
// It has a host only if a single field says it: else a client could add one that has.
func originalTarget(r *http.Request) (target *url.URL, err error) {
	in, value := "", ""
	for _, field := range targetFields {
		for _, each := range r.Header[field] {
			if each == "" {
				continue
			}
			parsed, err := url.ParseRequestURI(each)
			switch {
			case err != nil:
				return nil, store.Invalidf("%s is %q, which is not an address like /path?query", field, shorten(each))
			case target == nil:
				target, in, value = parsed, field, each
			case parsed.Path != target.Path || parsed.RawQuery != target.RawQuery:
				return nil, disagreement(in, value, field, each)
			default:
				target.Host = ""
			}
		}
	}
	return target, nil
}

// loopback are the networks of this machine. A proxy there is always believed: who may connect
// from there can ask in anybody's name anyway.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// withLoopback returns clients that believe proxies on this machine, too.
func withLoopback(clients httplimit.Clients) httplimit.Clients {
	clients.Trusted = slices.Concat(loopback, clients.Trusted)
	return clients
}

// checkPeer reports a peer that is no trusted proxy. Without this mistake being seen, the
// clients of such a proxy would share one limit: its own.
func checkPeer(r *http.Request, clients *httplimit.Clients) error {
	peer, known := httplimit.Peer(r)
	if known && clients.Trusts(peer) {
		return nil
	}
	who := strings.TrimSuffix(r.RemoteAddr, "@")
	if known {
		who = peer.String()
	}
	return store.Invalidf("%s is not a trusted proxy; add it to trusted_proxies of http in the configuration", shorten(who))
}

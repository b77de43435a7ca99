package api

import (
	"cmp"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/serve/refusal"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const authPrefix = prefix + "auth/"

// authorize tells a proxy whether it may pass a request on. rest is the path behind [authPrefix]: the policy, and
// perhaps the path of the original request.
func (l *listener) authorize(w http.ResponseWriter, r *http.Request, rest string) {
	if r.ContentLength != 0 {
		// The body is not needed. A proxy can announce it and not send it, so do not wait for it.
		w.Header().Set("Connection", "close")
	}
	refusal.Uncached(w.Header())
	name, _, _ := strings.Cut(rest, "/")
	settings := l.engine.Settings()
	decides, err := settings.Policy(name)
	if err != nil {
		refusal.Write(w, http.StatusNotFound, outcome.Usage.Word, err.Error())
		return
	}
	clients := settings.HTTP.Clients
	clients.Trusted = slices.Concat(loopback, clients.Trusted)
	err = checkPeer(r, &clients)
	var original *http.Request
	if err == nil {
		original, err = originalRequest(r, rest[len(name):])
	}
	if err != nil {
		l.refuse(w, err)
		return
	}
	rule := settings.HTTP.Rules[name]
	if rule.Skips(original) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	c := new(call)
	c.ask.Op, c.ask.Policy, c.ask.Attributes, c.ask.Cost, c.ask.Settings = store.Take, name,
		rule.Of(original, &clients), 1, settings
	c.ask.Costs, c.err = rule.Costs(decides, original, c.ask.Attributes)
	if l.decide(r.Context(), c); c.err != nil {
		if errors.Is(c.err, store.ErrInvalid) {
			c.err = store.Invalidf("%s; http.attributes of the policy says where in a request it is", c.err)
		}
		l.refuse(w, c.err)
		return
	}
	l.setHeaders(w.Header(), c)
	if store.AllAllowed(c.answer.Decisions) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	httplimit.Denial(rule.Status(), c.answer.DeniedBy()).Write(w)
}

// Fields in which proxies describe the original request: those of Traefik and Caddy, and those in common
// configurations of nginx.
var (
	methodFields = []string{"X-Forwarded-Method", "X-Original-Method"}
	targetFields = []string{"X-Forwarded-Uri", "X-Original-Uri", "X-Original-Url"}
	hostFields   = []string{"X-Forwarded-Host"}
)

// originalRequest returns the request about which a proxy asks with r. path is the part of r's path behind the policy,
// where some proxies put the original path; it is empty if there is none.
//
// A client can send such fields itself. So if there are several for one purpose, all must agree: one is the proxy's.
func originalRequest(r *http.Request, path string) (original *http.Request, err error) {
	var method, host, address string
	for _, of := range []struct {
		into   *string
		fields []string
	}{{&method, methodFields}, {&host, hostFields}, {&address, targetFields}} {
		if *of.into, err = said(r, of.fields); err != nil {
			return nil, err
		}
	}
	target := &url.URL{Path: cmp.Or(path, "/"), RawQuery: r.URL.RawQuery}
	if address != "" {
		if target, err = url.ParseRequestURI(address); err != nil {
			return nil, store.Invalidf("%q is not an address like /path?query", shorten(address))
		}
		if path != "" && path != target.Path {
			return nil, store.Invalidf(
				"the path %q behind the policy and a field of the request name different requests", shorten(path))
		}
	}
	original = &http.Request{URL: target, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor,
		Header: r.Header, RemoteAddr: r.RemoteAddr, TLS: r.TLS, Body: http.NoBody,
		ContentLength: -1} // r says its own
	original.Method, original.Host = cmp.Or(method, r.Method), cmp.Or(host, target.Host, r.Host)
	return original.WithContext(r.Context()), nil
}

// said returns the value of the fields, which must agree. It is empty if there is none.
func said(r *http.Request, fields []string) (value string, err error) {
	in := ""
	for _, field := range fields {
		for _, each := range r.Header[field] {
			switch {
			case each == "":
			case in == "":
				value, in = each, field
			case each != value:
				return "", store.Invalidf(
					"%s is %q and %s is %q; the proxy must set or remove both, so that no client can say "+
						"what it asked for", in, shorten(value), field, shorten(each))
			}
		}
	}
	return value, nil
}

// loopback are the networks of this machine. A proxy there is always trusted: who can connect from there can use
// any name anyway.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// checkPeer refuses a peer that is no trusted proxy, all of whose clients would share one limit unnoticed.
func checkPeer(r *http.Request, clients *httplimit.Clients) error {
	peer, known := httplimit.Peer(r)
	if known && clients.Trusts(peer) {
		return nil
	}
	who := strings.TrimSuffix(r.RemoteAddr, "@")
	if known {
		who = peer.String()
	}
	return store.Invalidf("%s is not a trusted proxy; add it to trusted_proxies of http in the configuration",
		shorten(who))
}

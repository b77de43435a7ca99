package api

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/serve/refusal"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const authPrefix = prefix + "auth/"

// authorize tells a proxy whether it may pass a request on. rest is the path behind [authPrefix]: the policy, and
// perhaps the path of the original request.
func (l *listener) authorize(w http.ResponseWriter, r *http.Request, rest string) {
	if r.ContentLength != 0 {
		// The body belongs to the original request and is not needed. A proxy can announce it and not send it, so
		// do not wait for it.
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
	c.ask.Op, c.ask.Policy, c.ask.Attributes, c.ask.Cost, c.ask.Settings = store.Take, name, rule.Of(original, &clients), 1, settings
	c.ask.Costs, c.err = rule.Costs(decides, original, c.ask.Attributes)
	if l.decide(r.Context(), c); c.err != nil {
		if errors.Is(c.err, store.ErrInvalid) {
			c.err = cmp.Or(lacking(decides, &rule, c.ask.Attributes), c.err)
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

// lacking returns what a request, or the configuration, lacks to decide by p; nil if nothing.
func lacking(p *policy.Policy, rule *httplimit.Rule, attributes policy.Attributes) error {
	names, needed := p.Attributes()
	for _, attribute := range names {
		source, has := rule.Attributes[attribute]
		switch {
		case !needed[attribute] || attributes[attribute] != "":
		case !has:
			return store.Invalidf("policy %q needs the attribute %s; say in http.attributes of the policy where in a request it is",
				p.Name, attribute)
		default:
			return store.Invalidf("policy %q needs the attribute %s, which is %s of the request; it is empty or not there",
				p.Name, attribute, source)
		}
	}
	for _, field := range p.CostFields() {
		if _, has := rule.Attributes[field]; !has { // no proxy sends the length of a body here
			return store.Invalidf("policy %q needs the cost %s; say in http.attributes of the policy where in a request it is, "+
				"such as header:X-%s", p.Name, field, http.CanonicalHeaderKey(field))
		}
	}
	return nil
}

package configfile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// Bounds of settings for HTTP. A value beyond them is a slip.
const (
	maxIPv6Bits     = 128
	minDeniedStatus = 400
	maxDeniedStatus = 599
)

// headers are the words for the header fields about limits.
var headers = []struct {
	word string
	is   httplimit.Headers
}{{"ratelimit", httplimit.RateLimit}, {"x-ratelimit", httplimit.XRateLimit}, {"retry-after", httplimit.RetryAfter}}

// DefaultHTTP returns the settings of an HTTP server without a configuration.
func DefaultHTTP() httplimit.Settings {
	clients := httplimit.Clients{Header: httplimit.XForwardedFor, IPv6Bits: httplimit.DefaultIPv6Bits}
	return httplimit.Settings{Clients: clients, Headers: httplimit.AllHeaders, Rules: map[string]httplimit.Rule{}}
}

// readHTTP reads the field http of the file.
func readHTTP(r *yamlfile.Reader, file map[string]yamlfile.Value) httplimit.Settings {
	settings := DefaultHTTP()
	fields, _ := r.Fields(file["http"], "http", Fields("http"))
	settings.Clients.Trusted = readNetworks(r, fields["trusted_proxies"])
	if name, ok := r.Text(fields["client_header"], "client_header", "the name of a header field, such as "+
		httplimit.XForwardedFor); ok {
		if (&httplimit.Clients{Header: name}).Validate() != nil {
			r.Mistake(fields["client_header"],
				"client_header %q is not the name of a header field; write one such as %s, %s or X-Real-IP",
				name, httplimit.XForwardedFor, httplimit.Forwarded)
		}
		settings.Clients.Header = name
	}
	if bits, ok := readNumber(r, fields["ipv6_prefix"], 1, maxIPv6Bits); ok {
		settings.Clients.IPv6Bits = int(bits)
	}
	if e, given := fields["headers"]; given {
		settings.Headers = 0
		readTexts(r, e, "header fields, such as [ratelimit, retry-after]", func(word string) string {
			for _, each := range headers {
				if each.word == word {
					settings.Headers |= each.is
					return ""
				}
			}
			return fmt.Sprintf("header field %q is unknown; it is ratelimit, x-ratelimit, retry-after", word)
		})
	}
	return settings
}

// readNetworks reads a list of networks; an address is a network of one.
func readNetworks(r *yamlfile.Reader, v yamlfile.Value) (networks []netip.Prefix) {
	readTexts(r, v, "networks, such as [127.0.0.0/8]", func(text string) string {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			address, wrong := netip.ParseAddr(text)
			if wrong != nil || address.Zone() != "" {
				return fmt.Sprintf("network %q is not valid; write an address, or a network such as 10.0.0.0/8", text)
			}
			network = netip.PrefixFrom(address, address.BitLen())
		}
		switch masked := network.Masked(); {
		case network.Addr().Is4In6():
			return fmt.Sprintf("network %q is an IPv4 address written as IPv6; write it as IPv4", text)
		case masked != network:
			return fmt.Sprintf("network %q has bits behind its prefix; write %s, or %s for one address", text, masked,
				network.Addr())
		}
		networks = append(networks, network)
		return ""
	})
	return networks
}

// readTexts reads a list of texts, and passes each to accept, which returns what is wrong with it, or "". what
// names the texts, in the plural.
func readTexts(r *yamlfile.Reader, v yamlfile.Value, what string, accept func(text string) (wrong string)) {
	values, _ := r.List(v, v.Name, "a list of "+what)
	for _, value := range values {
		if text, ok := r.Text(value, "an entry of "+v.Name, "a text"); ok {
			if wrong := accept(text); wrong != "" {
				r.Mistake(value, "%s", wrong)
			}
		}
	}
}

// readRule reads the field http of a policy. p is already read; path is the path of its value.
func readRule(r *yamlfile.Reader, v yamlfile.Value, p *policy.Policy, path string) httplimit.Rule {
	rule := httplimit.Rule{}
	fields, _ := r.Fields(v, "http of the policy", Fields("policy-http"))
	rule.Attributes = readSources(r, fields["attributes"], p, path)
	rule.Skip = readSkip(r, fields["skip"])
	status, _ := readNumber(r, fields["denied_status"], minDeniedStatus, maxDeniedStatus)
	rule.DeniedStatus = int(status)
	return rule
}

// readSources reads the sources of a policy's attributes.
func readSources(r *yamlfile.Reader, v yamlfile.Value, p *policy.Policy, path string) map[string]httplimit.Source {
	entries, ok := r.Map(v, v.Name, "a map from attributes to where they are, such as {ip: client}")
	if !ok {
		return nil
	}
	sources, given := map[string]httplimit.Source{}, map[string]bool{}
	for _, e := range entries {
		given[e.Name] = true
		if wrong := unknownAttribute(r, p, path, e.Name); wrong != "" {
			r.MistakeAtKey(e, "%s", wrong)
			continue
		}
		source, ok := yamlfile.Parsed(r, e, fmt.Sprintf("attribute %q", e.Name),
			"where it is in a request, such as client or header:X-User",
			httplimit.ParseSource)
		if ok {
			sources[e.Name] = source
		}
	}
	if missing := missingAttributes(r, httplimit.Sourced(p), path, given); len(missing) > 0 {
		r.MistakeAtKey(v, "policy %q needs %s, too; say where in a request", p.Name, strings.Join(missing, " and "))
	}
	return sources
}

// unknownAttribute returns what is wrong with naming that attribute of a policy, or "". Nothing is known about a
// policy with mistakes.
func unknownAttribute(r *yamlfile.Reader, p *policy.Policy, path, name string) string {
	known, _ := p.Attributes()
	known = append(known, p.CostFields()...) // an entry or a source can also be a cost
	if slices.Contains(known, name) || r.HasMistakeWithin(path+".limits") {
		return ""
	}
	return fmt.Sprintf("policy %q has no attribute %q%s; it uses %s", p.Name, name, Suggestion(name, known),
		strings.Join(known, ", "))
}

// missingAttributes returns those that a policy needs and that are not given. Nothing is known about a policy with
// mistakes.
func missingAttributes(r *yamlfile.Reader, needed []string, path string, given map[string]bool) (missing []string) {
	for _, name := range needed {
		if !given[name] && !r.HasMistakeWithin(path+".limits") {
			missing = append(missing, name)
		}
	}
	return missing
}

func readSkip(r *yamlfile.Reader, v yamlfile.Value) httplimit.Skip {
	skip := httplimit.Skip{}
	fields, _ := r.Fields(v, "skip", Fields("skip"))
	readTexts(r, fields["methods"], "methods, such as [OPTIONS]", func(method string) string {
		if strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
			return fmt.Sprintf("method %q is not valid; it is a word in upper case, such as OPTIONS", method)
		}
		skip.Methods = append(skip.Methods, method)
		return ""
	})
	readTexts(r, fields["paths"], "paths, such as [/healthz, /static/*]", func(path string) string {
		switch {
		case !strings.HasPrefix(path, "/"):
			return fmt.Sprintf("path %q is not valid; it begins with /", path)
		case strings.Contains(strings.TrimSuffix(path, "*"), "*"):
			return fmt.Sprintf("path %q is not valid; * stands for any rest, and so may only be at the end", path)
		case strings.ContainsAny(path, "?#"):
			return fmt.Sprintf("path %q is not valid; write it without a query", path)
		}
		skip.Paths = append(skip.Paths, path)
		return ""
	})
	return skip
}

package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/configfile"
)

// Setting is a value and its path, such as "policies.login.http.denied_status".
type Setting struct{ Name, Value string }

// HTTPSettings returns the settings of a configuration for HTTP requests and Envoy, with the defaults of those for
// all policies.
func HTTPSettings(c *Config) (settings []Setting) {
	path := ""
	add := func(name, value string) {
		if value != "" {
			settings = append(settings, Setting{path + "." + name, value})
		}
	}
	path = "http"
	var trusted []string
	for _, network := range c.HTTP.Clients.Trusted {
		trusted = append(trusted, network.String())
	}
	add("trusted_proxies", Listed(trusted))
	add("client_header", c.HTTP.Clients.Header)
	add("ipv6_prefix", fmt.Sprint(c.HTTP.Clients.IPv6Bits))
	add("headers", Listed(configfile.HeaderWords(c.HTTP.Headers)))
	for _, p := range c.Policies {
		rule, has := c.HTTP.Rules[p.Name]
		if !has {
			continue
		}
		path = "policies." + p.Name + ".http"
		var sources []string
		for _, name := range slices.Sorted(maps.Keys(rule.Attributes)) {
			sources = append(sources, name+": "+rule.Attributes[name].String())
		}
		add("attributes", enclosed("{", sources, "}"))
		add("skip.methods", enclosed("[", rule.Skip.Methods, "]"))
		add("skip.paths", enclosed("[", rule.Skip.Paths, "]"))
		add("denied_status", fmt.Sprint(rule.Status()))
	}
	for _, domain := range slices.Sorted(maps.Keys(c.Envoy)) {
		for i := range c.Envoy[domain] {
			d := &c.Envoy[domain][i]
			path = fmt.Sprintf("envoy.%s[%d]", domain, i)
			add("unlimited", yes(d.Unlimited))
			add("deny", yes(d.Deny))
			add("policy", d.Policy)
			add("entries", entriesText(d))
			add("name", d.Name)
			add("replaces", enclosed("[", d.Replaces, "]"))
		}
	}
	path = "envoy"
	options := &c.EnvoyOptions
	add("headers.limit", options.Headers.Limit)
	add("headers.remaining", options.Headers.Remaining)
	add("headers.reset", options.Headers.Reset)
	add("shadow", yes(options.Shadow))
	return settings
}

func yes(is bool) string { return map[bool]string{true: "true"}[is] }

// entriesText writes the entries of a descriptor in the form of a file.
func entriesText(d *configfile.EnvoyDescriptor) string {
	var words []string
	for i := range d.Entries {
		word := d.Entries[i].String()
		switch attribute := d.Entries[i].Attribute; {
		case !d.Ordered:
			word = strings.TrimSuffix(word+": "+attribute, " ")
		case attribute != "":
			word = "{" + word + ": " + attribute + "}"
		}
		words = append(words, word)
	}
	if d.Ordered {
		return Listed(words)
	}
	return enclosed("{", words, "}")
}

// Listed writes words as a list of YAML.
func Listed(words []string) string { return cmp.Or(enclosed("[", words, "]"), "[]") }

// enclosed returns words in brackets, or nothing if there are none.
func enclosed(begin string, words []string, end string) string {
	if len(words) == 0 {
		return ""
	}
	return begin + strings.Join(words, ", ") + end
}

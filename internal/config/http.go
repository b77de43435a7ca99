package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
)

// Setting is a value and its path, such as "policies.login.http.denied_status".
type Setting struct{ Name, Value string }

// HTTPSettings returns the settings of a configuration for HTTP requests and Envoy, with the defaults of those for
// all policies.
func HTTPSettings(c *Config) []Setting {
	settings := []Setting{
		{"http.trusted_proxies", Listed(texts(c.HTTP.Clients.Trusted))},
		{"http.client_header", c.HTTP.Clients.Header},
		{"http.ipv6_prefix", fmt.Sprint(c.HTTP.Clients.IPv6Bits)},
		{"http.headers", Listed(configfile.HeaderWords(c.HTTP.Headers))},
	}
	for _, p := range c.Policies {
		if rule, has := c.HTTP.Rules[p.Name]; has {
			for _, s := range ruleSettings(&rule) {
				settings = append(settings, Setting{"policies." + p.Name + ".http." + s.Name, s.Value})
			}
		}
	}
	for _, domain := range slices.Sorted(maps.Keys(c.Envoy)) {
		for i := range c.Envoy[domain] {
			path := fmt.Sprintf("envoy.%s[%d]", domain, i)
			for _, s := range descriptorSettings(&c.Envoy[domain][i]) {
				settings = append(settings, Setting{path + "." + s.Name, s.Value})
			}
		}
	}
	options := &c.EnvoyOptions
	for _, s := range []Setting{{"ratelimit_config", options.RatelimitConfig}, {"headers.limit", options.Headers.Limit},
		{"headers.remaining", options.Headers.Remaining}, {"headers.reset", options.Headers.Reset}} {
		if s.Value != "" {
			settings = append(settings, Setting{"envoy." + s.Name, s.Value})
		}
	}
	if options.Shadow {
		settings = append(settings, Setting{"envoy.shadow", "true"})
	}
	return settings
}

// descriptorSettings returns the settings of a descriptor of Envoy, by their names in it.
func descriptorSettings(d *configfile.EnvoyDescriptor) (settings []Setting) {
	switch {
	case d.Unlimited:
		settings = append(settings, Setting{"unlimited", "true"})
	case d.Deny:
		settings = append(settings, Setting{"deny", "true"})
	case d.Policy != "":
		settings = append(settings, Setting{"policy", d.Policy})
	}
	settings = append(settings, Setting{"entries", entriesText(d)})
	if d.Name != "" {
		settings = append(settings, Setting{"name", d.Name})
	}
	if len(d.Replaces) > 0 {
		settings = append(settings, Setting{"replaces", Listed(d.Replaces)})
	}
	return settings
}

// ruleSettings returns the settings of a rule, by their names in it.
func ruleSettings(rule *httplimit.Rule) (settings []Setting) {
	if len(rule.Attributes) > 0 {
		var words []string
		for _, name := range slices.Sorted(maps.Keys(rule.Attributes)) {
			words = append(words, name+": "+rule.Attributes[name].String())
		}
		settings = append(settings, Setting{"attributes", "{" + strings.Join(words, ", ") + "}"})
	}
	if len(rule.Skip.Methods) > 0 {
		settings = append(settings, Setting{"skip.methods", Listed(rule.Skip.Methods)})
	}
	if len(rule.Skip.Paths) > 0 {
		settings = append(settings, Setting{"skip.paths", Listed(rule.Skip.Paths)})
	}
	return append(settings, Setting{"denied_status", fmt.Sprint(rule.Status())})
}

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
	return "{" + strings.Join(words, ", ") + "}"
}

// Listed writes words as a list of YAML.
func Listed(words []string) string { return "[" + strings.Join(words, ", ") + "]" }

func texts[T fmt.Stringer](values []T) []string {
	var texts []string
	for _, value := range values {
		texts = append(texts, value.String())
	}
	return texts
}

// httpDifferences returns the changes of the settings for HTTP and Envoy, of policies that both have.
func httpDifferences(before, after *Config) (all []Difference) {
	old, now := map[string]string{}, map[string]string{}
	var paths []string
	for _, s := range HTTPSettings(before) {
		old[s.Name] = s.Value
		paths = append(paths, s.Name)
	}
	for _, s := range HTTPSettings(after) {
		if now[s.Name] = s.Value; old[s.Name] == "" {
			paths = append(paths, s.Name)
		}
	}
	for _, path := range paths {
		if old[path] == now[path] {
			continue
		}
		d := Difference{Change: Changed}
		name := path
		if rest, is := strings.CutPrefix(path, "policies."); is {
			d.Policy, name, _ = strings.Cut(rest, ".")
			if configfile.NamedPolicy(before.Policies, d.Policy) == nil || configfile.NamedPolicy(after.Policies, d.Policy) == nil {
				continue
			}
		}
		if old[path] != "" {
			d.Old = name + " " + old[path]
		}
		if now[path] != "" {
			d.New = name + " " + now[path]
		}
		all = append(all, d)
	}
	return all
}

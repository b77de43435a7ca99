package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Setting is a value and its path in a file, such as "policies.login.http.denied_status".
type Setting struct {
	Name  string `json:"setting"`
	Value string `json:"value"`
}

// settings collects settings. Those below at have a path that begins with it.
type settings struct {
	all []Setting
	at  string
}

func (s *settings) add(name, value string) {
	if value != "" {
		s.all = append(s.all, Setting{s.at + name, value})
	}
}

// Settings returns all that a configuration decides by, with its defaults. Contexts are left out.
func Settings(c *Config) []Setting {
	s := new(settings)
	s.add("prefix", cmp.Or(c.Prefix, store.DefaultPrefix))
	s.add("local_share", c.LocalShare.String())
	s.add("breaker.enabled", fmt.Sprint(c.Breaker != nil))
	if b := c.Breaker; b != nil {
		s.add("breaker.failures", fmt.Sprint(b.Failures))
		s.add("breaker.slow", b.Slow.String())
		s.add("breaker.pause", b.Pause.String())
		s.add("breaker.max_pause", b.MaxPause.String())
	}
	for _, p := range c.Policies {
		s.policy(p)
	}
	for i := range c.Layouts {
		m := &c.Layouts[i]
		s.at = fmt.Sprintf("layouts[%d].", i)
		s.add("layout", m.Layout.Info().Name)
		if !m.Keys.IsZero() {
			s.add("keys", m.Keys.String())
		}
		s.add("limit", m.Text)
	}
	s.at = ""
	s.add("denials", fmt.Sprint(!c.NoDenials))
	s.http(c)
	s.envoy(c)
	return s.all
}

func (s *settings) policy(p *policy.Policy) {
	s.at = "policies." + p.Name + "."
	s.add("on_error", p.OnError.String())
	if p.OnError == store.LocalOnError {
		s.add("local_share", p.LocalShare.String())
	}
	s.add("hash_by", enclosed("[", p.HashBy, "]"))
	if p.Wait > 0 {
		s.add("wait", store.FormatPeriod(p.Wait))
	}
	for i := range p.Limits {
		l := &p.Limits[i]
		s.at = fmt.Sprintf("policies.%s.limits[%d].", p.Name, i)
		s.add("name", l.Name)
		s.add("by", Listed(l.By))
		s.add("limit", l.Stored().String())
		s.add("cost", l.Cost.String())
		s.add("shadow", fmt.Sprint(l.Shadow))
		s.add("classes", l.Classes.String())
		for j, exception := range l.Exceptions {
			s.add(fmt.Sprintf("overrides[%d].when", j), exception.When.Text())
			s.add(fmt.Sprintf("overrides[%d].limit", j), exception.Limit.Stored().String())
		}
	}
}

func (s *settings) http(c *Config) {
	s.at = "http."
	var trusted []string
	for _, network := range c.HTTP.Clients.Trusted {
		trusted = append(trusted, network.String())
	}
	s.add("trusted_proxies", Listed(trusted))
	s.add("client_header", c.HTTP.Clients.Header)
	s.add("ipv6_prefix", fmt.Sprint(c.HTTP.Clients.IPv6Bits))
	s.add("headers", Listed(configfile.HeaderWords(c.HTTP.Headers)))
	for _, p := range c.Policies {
		rule, has := c.HTTP.Rules[p.Name]
		if !has {
			continue
		}
		s.at = "policies." + p.Name + ".http."
		var sources []string
		for _, name := range slices.Sorted(maps.Keys(rule.Attributes)) {
			sources = append(sources, name+": "+rule.Attributes[name].String())
		}
		s.add("attributes", enclosed("{", sources, "}"))
		s.add("skip.methods", enclosed("[", rule.Skip.Methods, "]"))
		s.add("skip.paths", enclosed("[", rule.Skip.Paths, "]"))
		s.add("denied_status", fmt.Sprint(rule.Status()))
	}
}

func (s *settings) envoy(c *Config) {
	for _, domain := range slices.Sorted(maps.Keys(c.Envoy)) {
		for i := range c.Envoy[domain] {
			d := &c.Envoy[domain][i]
			s.at = fmt.Sprintf("envoy.%s[%d].", domain, i)
			s.add("unlimited", yes(d.Unlimited))
			s.add("deny", yes(d.Deny))
			s.add("policy", d.Policy)
			s.add("entries", entriesText(d))
			s.add("name", d.Name)
			s.add("replaces", enclosed("[", d.Replaces, "]"))
		}
	}
	s.at = "envoy."
	headers := &c.EnvoyOptions.Headers
	s.add("headers.limit", headers.Limit)
	s.add("headers.remaining", headers.Remaining)
	s.add("headers.reset", headers.Reset)
	s.add("shadow", yes(c.EnvoyOptions.Shadow))
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

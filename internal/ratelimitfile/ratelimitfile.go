// Package ratelimitfile reads the configuration of envoyproxy/ratelimit, and turns it into policies and descriptors of
// limitctl.
package ratelimitfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// File is a file of envoyproxy/ratelimit.
type File struct {
	Path string
	Data []byte
}

// Rules are what files of envoyproxy/ratelimit say, in limitctl's words.
type Rules struct {
	// Policies has one for each limit, in the order of the files.
	Policies []*policy.Policy
	// Domains are the names of the keys of Envoy, in the order of the files.
	Domains []string
	Envoy   configfile.EnvoyDomains
	// Remarks are places of the files that limitctl does not do in the same way.
	Remarks []yamlfile.Mistake
}

// Read reads files together. With mistakes there are no rules.
func Read(files []File) (*Rules, []yamlfile.Mistake) {
	b := &builder{rules: &Rules{Envoy: configfile.EnvoyDomains{}}, names: newNames(), domains: map[string]string{},
		places: map[string]bool{}}
	var mistakes []yamlfile.Mistake
	for _, file := range files {
		b.path = file.Path
		var root yamlfile.Value
		var ok bool
		if b.reader, root, ok = yamlfile.Parse(file.Path, file.Data, "a domain and its descriptors"); ok {
			b.readFile(root)
		}
		mistakes = append(mistakes, b.reader.Mistakes()...)
	}
	if len(mistakes) > 0 {
		return nil, mistakes
	}
	return b.rules, nil
}

// builder collects the rules of files.
type builder struct {
	rules   *Rules
	names   *names
	path    string // of the file
	reader  *yamlfile.Reader
	domains map[string]string // the file that first has each domain
	places  map[string]bool   // the paths of all descriptors
}

// The fields of a file. They are those that envoyproxy/ratelimit accepts.
var rootFields = []yamlfile.Field{
	{Name: "domain", About: "The domain, as Envoy sends it.", Required: true}, {Name: "descriptors"},
}

var descriptorFields = []yamlfile.Field{
	{Name: "key", About: "The key of the descriptor's entry.", Required: true}, {Name: "value"}, {Name: "rate_limit"},
	{Name: "descriptors"}, {Name: "shadow_mode"}, {Name: "quota_mode"}, {Name: "detailed_metric"},
	{Name: "value_to_metric"},
	{Name: "share_threshold"}, {Name: "metadata"},
}

var rateLimitFields = []yamlfile.Field{
	{Name: "unit"}, {Name: "requests_per_unit"}, {Name: "unlimited"}, {Name: "name"}, {Name: "replaces"},
}

func (b *builder) remark(v yamlfile.Value, format string, args ...any) {
	b.rules.Remarks = append(b.rules.Remarks, b.reader.At(v, format, args...))
}

func (b *builder) readFile(root yamlfile.Value) {
	fields, _ := b.reader.Fields(root, "the file", rootFields)
	domain := ""
	if v, given := fields["domain"]; given {
		var ok bool
		if domain, ok = b.reader.Text(v, "domain", "the domain that Envoy sends"); ok && len(domain) > longestText {
			b.reader.Mistake(v, "domain has %d bytes; at most %d are possible", len(domain), longestText)
		}
		if first, twice := b.domains[domain]; twice {
			b.remark(v, "domain %q is also in %s; both count together", domain, first)
		} else if ok {
			b.domains[domain] = b.path
			b.rules.Domains = append(b.rules.Domains, domain)
			b.rules.Envoy[domain] = nil
		}
	}
	if v := fields["descriptors"]; !b.reader.IsEmpty(v) {
		b.descriptors(v, domain, nil)
	}
}

// longestText is the most bytes of a domain, a key or a value.
const longestText = 200

// descriptors reads the descriptors below the entries before.
func (b *builder) descriptors(v yamlfile.Value, domain string, before []configfile.EnvoyEntry) {
	values, _ := b.reader.List(v, "descriptors", "a list of descriptors, each beginning with a dash")
	for _, value := range values {
		b.descriptor(value, domain, before)
	}
}

func (b *builder) descriptor(v yamlfile.Value, domain string, before []configfile.EnvoyEntry) {
	r := b.reader
	fields, ok := r.Fields(v, "the descriptor", descriptorFields)
	if !ok {
		return
	}
	entry, ok := b.entry(fields)
	if !ok {
		return
	}
	entries := append(slices.Clone(before), entry)
	place := fmt.Sprintf("%q", append([]string{domain}, words(entries)...))
	if b.places[place] {
		r.Mistake(v, "the descriptor %s is given twice; keep one", strings.Join(words(entries), " / "))
		return
	}
	b.places[place] = true
	b.rules.Envoy[domain] = append(b.rules.Envoy[domain], b.rule(v, fields, domain, entries))
	for _, field := range []string{"share_threshold", "quota_mode", "detailed_metric", "value_to_metric", "metadata"} {
		if v := fields[field]; !r.IsEmpty(v) && (r.IsMap(v) || r.IsList(v) || r.Bool(v)) {
			b.remark(v, "%s has no equal", field)
		}
	}
	if e := fields["descriptors"]; !r.IsEmpty(e) {
		b.descriptors(e, domain, entries)
	}
}

// entry reads the key and the value of a descriptor.
func (b *builder) entry(fields map[string]yamlfile.Value) (entry configfile.EnvoyEntry, ok bool) {
	r := b.reader
	v := fields["key"]
	if entry.Key, ok = r.Text(v, "key", "the key of the descriptor's entry"); !ok {
		return entry, false
	}
	switch {
	case len(entry.Key) > longestText:
		r.Mistake(v, "key has %d bytes; at most %d are possible", len(entry.Key), longestText)
	case strings.ContainsAny(entry.Key, "=*"):
		r.Mistake(v, "key %q has a = or *, which limitctl's configuration cannot name", entry.Key)
	}
	if v := fields["value"]; !r.IsEmpty(v) {
		entry.Fixed = true
		if entry.Value, _ = r.Text(v, "value", "the value of the descriptor's entry"); len(entry.Value) > longestText {
			r.Mistake(v, "value has %d bytes; at most %d are possible", len(entry.Value), longestText)
		}
	}
	return entry, true
}

func words(entries []configfile.EnvoyEntry) []string {
	all := make([]string, len(entries))
	for i := range entries {
		all[i] = entries[i].String()
	}
	return all
}

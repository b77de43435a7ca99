package configfile

import (
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// EnvoyOptions are the settings of the field envoy for all domains.
type EnvoyOptions struct {
	// RatelimitConfig is the file, or the directory with the files, of envoyproxy/ratelimit whose limits apply as well;
	// empty for none.
	RatelimitConfig string
	// Shadow: limits are decided and counted, but Envoy lets every request pass.
	Shadow bool
	// Headers are the names of the fields about the limit that is nearest to its end, instead of those of http.headers.
	Headers EnvoyHeaders
}

// EnvoyHeaders are names of header fields, all of them or none.
type EnvoyHeaders struct{ Limit, Remaining, Reset string }

func envoyObject() *yamlfile.Object {
	return &yamlfile.Object{About: "How Envoy's descriptors are limited.", Fields: []yamlfile.Field{
		{Name: "ratelimit_config", About: "A file of envoyproxy/ratelimit, or the directory that has its files, whose limits apply " +
			"as well. A relative path starts at this file's directory.", Schema: text},
		{Name: "shadow", About: "Decide and count, but let every request pass.", Schema: yesOrNo},
		{Name: "headers", About: "The names of the header fields about the limit that is nearest to its end, instead of those of " +
			"http.headers.", Schema: object("envoy-headers")},
	}}
}

func envoyHeadersObject() *yamlfile.Object {
	return &yamlfile.Object{About: "The names of header fields about a limit.", Fields: []yamlfile.Field{
		{Name: "limit", About: "The field for the requests per unit, such as RateLimit-Limit.", Required: true, Schema: text},
		{Name: "remaining", About: "The field for the requests that are left.", Required: true, Schema: text},
		{Name: "reset", About: "The field for the seconds until the limit resets.", Required: true, Schema: text},
	}}
}

// read reads an option, if v is one.
func (o *EnvoyOptions) read(r *yamlfile.Reader, v yamlfile.Value) (is bool) {
	switch v.Name {
	case "ratelimit_config":
		o.RatelimitConfig, _ = r.Text(v, v.Name, "a path, such as ratelimit/config")
	case "shadow":
		o.Shadow = r.Bool(v)
	case "headers":
		fields, _ := r.Fields(v, v.Name, envoyHeadersObject())
		seen := map[string]bool{}
		for _, field := range []struct {
			name string
			to   *string
		}{{"limit", &o.Headers.Limit}, {"remaining", &o.Headers.Remaining}, {"reset", &o.Headers.Reset}} {
			e := fields[field.name]
			text, ok := r.Text(e, field.name, "the name of a header field, such as RateLimit-Limit")
			lower := strings.ToLower(text)
			switch {
			case !ok:
			case (&httplimit.Clients{Header: text}).Validate() != nil:
				r.Mistake(e, "%s %q is not the name of a header field; write one such as RateLimit-Limit", field.name, text)
			case seen[lower]:
				r.Mistake(e, "two of the header fields have the name %q; give each its own", lower)
			}
			seen[lower] = true
			*field.to = text
		}
	default:
		return false
	}
	return true
}

// readWithoutPolicy reads the fields of a descriptor that need no policy.
func (d *EnvoyDescriptor) readWithoutPolicy(r *yamlfile.Reader, v yamlfile.Value, fields map[string]yamlfile.Value) {
	d.Unlimited = r.Bool(fields["unlimited"])
	d.Deny = r.Bool(fields["deny"])
	d.Name, _ = r.Text(fields["name"], "name", "a text")
	readTexts(r, fields["replaces"], "names of descriptors", func(name string) string {
		if d.Replaces = append(d.Replaces, name); name == d.Name {
			return fmt.Sprintf("the descriptor %q cannot replace itself", name)
		}
		return ""
	})
	_, policyGiven := fields["policy"]
	switch {
	case policyGiven && (d.Unlimited || d.Deny) || d.Unlimited && d.Deny:
		r.MistakeAtKey(v, "the descriptor has more than one of policy, unlimited and deny; keep one")
	case policyGiven || d.Unlimited || d.Deny || r.HasMistakeWithin(v.Path) || r.IsList(fields["entries"]):
	default:
		r.MistakeAtKey(v, "the descriptor has no policy: the policy that decides; or say unlimited: true or deny: true")
	}
}

// uncounted is the mistake of an entry with an attribute in a descriptor without a policy.
const uncounted = "entry %q has an attribute, and the descriptor has no policy that counts by it; leave it empty"

// readOrdered reads the entries of a descriptor that must be in this order: texts, and maps with one key for those that are
// attributes. decides is nil for an unknown policy; free says that there is none.
func readOrdered(r *yamlfile.Reader, v yamlfile.Value, decides *policy.Policy, free bool) (entries []EnvoyEntry) {
	values, _ := r.List(v, v.Name, "a list of the entries' keys")
	if len(values) == 0 {
		r.Mistake(v, "the descriptor has no entries; name the key of each, such as [{remote_address: ip}]")
	}
	given := map[string]bool{}
	for _, value := range values {
		isMap := r.IsMap(value)
		e, name, ok := readOneEntry(r, value, isMap)
		if !ok {
			continue
		}
		entry := EnvoyEntry{}
		entry.Key, entry.Value, entry.Fixed = strings.Cut(name, "=")
		if wrong := wrongEntry(&entry, nil); wrong != "" {
			r.MistakeAtKey(value, "%s", wrong)
			continue
		}
		switch {
		case !isMap || r.IsEmpty(e):
		case free:
			r.Mistake(e, uncounted, name)
		default:
			entry.Attribute, _ = readEntryAttribute(r, e, decides, given)
		}
		entries = append(entries, entry)
	}
	checkNeeded(r, v, decides, given)
	return entries
}

// readOneEntry reads an entry of a list: a text, or a map with one key, whose value is e.
func readOneEntry(r *yamlfile.Reader, v yamlfile.Value, isMap bool) (e yamlfile.Value, name string, ok bool) {
	const want = "KEY, KEY=VALUE or a map with one of them, such as {remote_address: ip}"
	if !isMap {
		name, ok = r.Text(v, "an entry", want)
		return e, name, ok
	}
	entries, _ := r.Map(v, "an entry", want)
	if len(entries) != 1 {
		r.Mistake(v, "an entry of the list has %d keys; write one, such as {remote_address: ip}", len(entries))
		return e, "", false
	}
	return entries[0], entries[0].Name, true
}

package configfile

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// maxEnvoyName is the most bytes of a domain, an entry's key or its fixed value.
const maxEnvoyName = 200

// EnvoyDomains are the descriptors of Envoy, by domain. The first descriptor of a domain that matches decides.
type EnvoyDomains map[string][]EnvoyDescriptor

// EnvoyDescriptor says what decides descriptors with exactly these entries: a policy, nothing (Unlimited, Deny), or no
// limit at all.
type EnvoyDescriptor struct {
	Policy string
	// Entries are in the order of the file. Unless Ordered, their keys differ.
	Entries []EnvoyEntry
	// Ordered: the entries of a descriptor must be in this order, and * in a value stands for any text. The ordered
	// descriptors of a domain are looked up entry by entry, as envoyproxy/ratelimit does.
	Ordered bool
	// Unlimited: the descriptor is never limited, and Envoy learns that. Deny: it is always denied.
	Unlimited, Deny bool
	// Name is a name for the Replaces of others, and the name of the limit in answers; empty for none.
	Name string
	// Replaces are names of descriptors that do not count in a request which matches this one.
	Replaces []string
}

// EnvoyEntry is an entry of a descriptor.
type EnvoyEntry struct {
	Key string
	// Value is the only value that matches, if Fixed; otherwise any value does.
	Value string
	Fixed bool
	// Attribute is the attribute of the policy for the entry's value; empty for an entry whose fixed value only
	// selects the descriptor.
	Attribute string
}

// readEnvoy reads the field envoy of the file, after its policies.
func readEnvoy(r *yamlfile.Reader, file map[string]yamlfile.Value, policies []*policy.Policy) (
	domains EnvoyDomains, options EnvoyOptions) {
	if _, given := file["envoy"]; given {
		domains = EnvoyDomains{}
	}
	for _, domain := range r.Named(file["envoy"], "envoy", "a map from each domain to its descriptors", validDomain) {
		if !r.IsList(domain) && options.read(r, domain) {
			continue
		}
		values, _ := r.List(domain, fmt.Sprintf("domain %q", domain.Name),
			"a list of descriptors, each beginning with a dash")
		descriptors := make([]EnvoyDescriptor, 0, len(values))
		var sound []int // without a mistake
		for i, value := range values {
			d := readDescriptor(r, value, policies)
			if !r.HasMistakeWithin(value.Path) {
				first := slices.IndexFunc(sound, func(i int) bool { return descriptors[i].covers(&d) })
				if first < 0 {
					sound = append(sound, i)
				} else {
					r.Mistake(value,
						"the descriptor is never reached: descriptor %d has the same keys and always matches first",
						sound[first]+1)
				}
			}
			descriptors = append(descriptors, d)
		}
		domains[domain.Name] = descriptors
	}
	return domains, options
}

// validDomain returns what is wrong with the name of a domain.
func validDomain(name string) error {
	if name == "" || len(name) > maxEnvoyName || !utf8.ValidString(name) {
		return store.Invalidf("domain %q is not valid; it is a text of at most %d bytes, as Envoy sends it", name,
			maxEnvoyName)
	}
	return nil
}

// covers reports whether d matches everything that other matches.
func (d *EnvoyDescriptor) covers(other *EnvoyDescriptor) bool {
	if d.Ordered || other.Ordered {
		return d.Ordered && other.Ordered && slices.EqualFunc(d.Entries, other.Entries, func(e, o EnvoyEntry) bool {
			return e.Key == o.Key && e.Value == o.Value
		})
	}
	return len(d.Entries) == len(other.Entries) && !slices.ContainsFunc(d.Entries, func(e EnvoyEntry) bool {
		return !slices.ContainsFunc(other.Entries, func(o EnvoyEntry) bool {
			return e.Key == o.Key && (!e.Fixed || o.Fixed && e.Value == o.Value)
		})
	})
}

func readDescriptor(r *yamlfile.Reader, v yamlfile.Value, policies []*policy.Policy) (d EnvoyDescriptor) {
	fields, ok := r.Fields(v, "the descriptor", Fields("envoy-descriptor"))
	if !ok {
		return d
	}
	decides, _ := yamlfile.Parsed(r, fields["policy"], "policy", "the name of a policy",
		func(name string) (*policy.Policy, error) {
			d.Policy = name
			return FindPolicy("the file", policies, name)
		})
	d.readWithoutPolicy(r, v, fields)
	if e, given := fields["entries"]; given {
		_, hasPolicy := fields["policy"]
		d.readEntries(r, e, decides, !hasPolicy)
	}
	return d
}

// readEntries reads the entries of a descriptor for the policy decides; nil means an unknown policy, and free that
// there is none. They are a map, or a list if they must be in this order.
func (d *EnvoyDescriptor) readEntries(r *yamlfile.Reader, v yamlfile.Value, decides *policy.Policy, free bool) {
	values, ok := d.entryValues(r, v)
	if ok && len(values) == 0 {
		r.Mistake(v, "the descriptor has no entries; name the key of each, such as {remote_address: ip}")
		return
	}
	given := map[string]bool{}
	for _, e := range values {
		entry := EnvoyEntry{}
		entry.Key, entry.Value, entry.Fixed = strings.Cut(e.Name, "=")
		if wrong := d.wrongEntry(&entry); wrong != "" {
			r.MistakeAtKey(e, "%s", wrong)
			continue
		}
		switch empty := r.IsEmpty(e); {
		case empty && (entry.Fixed || free || d.Ordered):
		case free && !empty:
			r.MistakeAt(e.Path, "entry %q has an attribute, and the descriptor has no policy that counts by it; "+
				"leave it empty", e.Name)
		default:
			if entry.Attribute, ok = readEntryAttribute(r, e, decides, given); !ok {
				continue
			}
		}
		d.Entries = append(d.Entries, entry)
	}
	if decides == nil || r.HasMistakeWithin(v.Path) {
		return
	}
	needed := append(decides.Needed(), decides.CostFields()...)
	if missing := missingAttributes(r, needed, policyPath(decides), given); len(missing) > 0 {
		r.MistakeAtKey(v, "policy %q needs %s, too; say which entries", decides.Name, strings.Join(missing, " and "))
	}
}

// entryValues returns the entries of a map, or those of a list of texts, and of maps with one key. They have names.
func (d *EnvoyDescriptor) entryValues(r *yamlfile.Reader, v yamlfile.Value) (values []yamlfile.Value, ok bool) {
	if d.Ordered = r.IsList(v); !d.Ordered {
		return r.Map(v, v.Name, "a map from the entries' keys to attributes, such as {remote_address: ip}")
	}
	const want = "KEY, KEY=VALUE or a map with one of them, such as {remote_address: ip}"
	for _, value := range r.OneOrMore(v) {
		if !r.IsMap(value) {
			if name, ok := r.Text(value, "an entry", want); ok {
				values = append(values, value.Key(name))
			}
			continue
		}
		if one, _ := r.Map(value, "an entry", want); len(one) == 1 {
			values = append(values, one[0])
		} else {
			r.Mistake(value, "an entry of the list has %d keys; write one, such as {remote_address: ip}", len(one))
		}
	}
	return values, !r.HasMistakeWithin(v.Path)
}

// readEntryAttribute reads the attribute of an entry of a descriptor. given has those of the entries before it.
func readEntryAttribute(r *yamlfile.Reader, e yamlfile.Value, decides *policy.Policy, given map[string]bool) (
	name string, ok bool) {
	name, ok = r.Text(e, fmt.Sprintf("entry %q", e.Name), "the name of an attribute, such as ip")
	if !ok {
		return "", false
	}
	wrong := ""
	if decides != nil {
		wrong = unknownAttribute(r, decides, policyPath(decides), name)
	}
	if given[name] {
		wrong = fmt.Sprintf("attribute %q is the value of two entries; keep one", name)
	}
	if wrong != "" {
		r.Mistake(e, "%s", wrong)
	}
	given[name] = true
	return name, true
}

func policyPath(p *policy.Policy) string { return "policies." + p.Name }

// wrongEntry returns what is wrong with the key of another entry; empty if nothing is.
func (d *EnvoyDescriptor) wrongEntry(e *EnvoyEntry) string {
	switch {
	case e.Key == "":
		return "an entry has no key; write KEY or KEY=VALUE"
	case e.Fixed && e.Value == "":
		return fmt.Sprintf("entry %q has no value behind the =; write KEY for any value", e.Key)
	case len(e.Key) > maxEnvoyName || len(e.Value) > maxEnvoyName:
		return fmt.Sprintf("an entry is too long; its key and its value may have at most %d bytes each", maxEnvoyName)
	case !d.Ordered && slices.ContainsFunc(d.Entries, func(other EnvoyEntry) bool { return other.Key == e.Key }):
		return fmt.Sprintf("entry %q is given twice; keep one", e.Key)
	}
	return ""
}

// EnvoyOptions are the settings of the field envoy for all domains.
type EnvoyOptions struct {
	// Shadow: limits are decided and counted, but Envoy lets every request pass.
	Shadow bool
	// Headers are the names of the fields about the limit that is nearest to its end, instead of those of http.headers.
	Headers EnvoyHeaders
}

// EnvoyHeaders are names of header fields, all of them or none.
type EnvoyHeaders struct{ Limit, Remaining, Reset string }

// read reads an option, if v is one.
func (o *EnvoyOptions) read(r *yamlfile.Reader, v yamlfile.Value) (is bool) {
	switch v.Name {
	case "shadow":
		o.Shadow = r.Bool(v)
	case "headers":
		fields, _ := r.Fields(v, v.Name, Fields("envoy-headers"))
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
				r.Mistake(e, "%s %q is not the name of a header field; write one such as RateLimit-Limit", field.name,
					text)
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

// String returns the entry's key in the form of a file: KEY or KEY=VALUE.
func (e *EnvoyEntry) String() string {
	if e.Fixed {
		return e.Key + "=" + e.Value
	}
	return e.Key
}

// IsPattern reports whether * in the entry's value stands for any text, if its descriptor is ordered.
func (e *EnvoyEntry) IsPattern() bool { return e.Fixed && strings.Contains(e.Value, "*") }

// emptyValue replaces an empty value, which no attribute can have. All clients without a value share their limits,
// since an error would let all of them pass.
const emptyValue = "(empty)"

// AttributeOf returns the form of an entry's value in keys. A long value is cut and ends with a hash of the whole
// value, so that a client cannot make its key too long to be limited. The key has room for all entries of d.
func (d *EnvoyDescriptor) AttributeOf(value string) string {
	if value == "" {
		return emptyValue
	}
	const (
		room    = 800 // of the 1,024 bytes of a subject; the rest is for names
		escaped = 3   // the most that a byte takes
		hash    = 24  // bytes: 192 bits
	)
	longest := max(room/max(len(d.Entries), 1), 48)
	if len(value) <= longest/escaped {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	mark := "~" + base64.RawURLEncoding.EncodeToString(sum[:hash])
	return value[:(longest-len(mark))/escaped] + mark
}

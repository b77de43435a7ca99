package ratelimitfile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// unit is a unit of time. A month and a year have the lengths that envoyproxy/ratelimit gives them.
type unit struct {
	name   string
	period time.Duration
}

const day = 24 * time.Hour

var units = []unit{
	{"second", time.Second}, {"minute", time.Minute}, {"hour", time.Hour}, {"day", day}, {"week", 7 * day},
	{"month", 30 * day},
	{"year", 365 * day},
}

// rule returns what decides the descriptor at v, whose entries are known. A limit makes a policy.
func (b *builder) rule(
	v yamlfile.Value, fields map[string]yamlfile.Value, domain string, entries []configfile.EnvoyEntry,
) configfile.EnvoyDescriptor {
	d := configfile.EnvoyDescriptor{Ordered: true, Entries: slices.Clone(entries)}
	limit := fields["rate_limit"]
	if b.reader.IsEmpty(limit) {
		return d // but other descriptors do not limit its value
	}
	of, ok := b.reader.Fields(limit, "rate_limit", rateLimitFields)
	if !ok {
		return d
	}
	if v := of["name"]; !b.reader.IsEmpty(v) {
		d.Name, _ = b.reader.Text(v, "name", "a text")
	}
	if v := of["replaces"]; !b.reader.IsEmpty(v) {
		d.Replaces = b.replaces(v, d.Name)
	}
	shadow := b.reader.Bool(fields["shadow_mode"])
	if d.Unlimited = b.reader.Bool(of["unlimited"]); d.Unlimited {
		return d
	}
	per, requests, ok := b.amount(limit, of)
	switch {
	case !ok:
		return d
	case requests == 0 && shadow:
		b.remark(limit, "a limit of 0 in shadow mode becomes unlimited: true")
		d.Unlimited = true
		return d
	case requests == 0:
		d.Deny = true
		return d
	}
	p := &policy.Policy{Name: b.names.policy(domain, entries)}
	amount := store.Limit{Algorithm: store.FixedWindow, Count: requests, Period: per.period}
	if normal, err := amount.Normalize(); err == nil {
		amount = normal
	}
	l := policy.Limit{Limit: limiter.LimitOf(per.name, amount)}
	l.Shadow = shadow
	for i := range d.Entries {
		d.Entries[i].Attribute = attribute(d.Entries[i].Key, l.By)
		l.By = append(l.By, d.Entries[i].Attribute)
	}
	p.Limits = []policy.Limit{l}
	for _, problem := range p.Problems() {
		b.reader.Mistake(v, "%s", problem.Text)
	}
	d.Policy = p.Name
	b.rules.Policies = append(b.rules.Policies, p)
	return d
}

// replaces reads the names that a limit replaces.
func (b *builder) replaces(v yamlfile.Value, own string) (names []string) {
	values, _ := b.reader.List(v, "replaces", "a list of names, such as [{name: per-user}]")
	for _, value := range values {
		fields, ok := b.reader.Fields(value, "an entry of replaces", []yamlfile.Field{
			{Name: "name", About: "The name of the limit that does not count.", Required: true}})
		if !ok {
			continue
		}
		name, ok := b.reader.Text(fields["name"], "name", "the name of a limit")
		if ok && name == own {
			b.reader.Mistake(fields["name"], "the limit %q cannot replace itself", name)
		}
		names = append(names, name)
	}
	return names
}

// amount reads how much a limit allows.
func (b *builder) amount(limit yamlfile.Value, of map[string]yamlfile.Value) (per *unit, requests int64, ok bool) {
	const want = "second, minute, hour, day, week, month or year"
	v := of["unit"]
	if b.reader.IsEmpty(v) {
		b.reader.Mistake(limit, "rate_limit has no unit; it must be %s", want)
		return nil, 0, false
	}
	text, ok := b.reader.Text(v, "unit", want)
	at := slices.IndexFunc(units, func(u unit) bool { return strings.EqualFold(u.name, text) })
	if ok && at < 0 {
		b.reader.Mistake(v, "unit is %q; it must be %s", text, want)
	}
	if at < 0 {
		return nil, 0, false
	}
	if v, given := of["requests_per_unit"]; given {
		text, isText := b.reader.Text(v, "requests_per_unit", "a whole number")
		n, err := strconv.ParseUint(text, 10, 32)
		if isText && err != nil {
			b.reader.Mistake(v, "requests_per_unit is %q; it must be a whole number up to %d", text,
				uint32(math.MaxUint32))
		}
		if requests = int64(n); requests > store.MaxCount {
			requests = store.MaxCount
			b.remark(v, "requests_per_unit becomes %d, the most that limitctl counts", requests)
		}
	}
	return &units[at], requests, true
}

// attribute returns a name for the attribute of a key, other than those in taken.
func attribute(key string, taken []string) string {
	name, _ := plain(key)
	name = name[:min(len(name), policy.MaxNameLength-4)]
	for n, base := 2, name; slices.Contains(taken, name); n++ {
		name = fmt.Sprint(base, "_", n)
	}
	return name
}

// plain returns text as a name, and whether that lost something.
func plain(text string) (name string, lost bool) {
	var b strings.Builder
	for i, c := range []byte(text) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if i == 0 && !letter {
			b.WriteByte('x')
			lost = true
		}
		if letter || '0' <= c && c <= '9' || c == '_' || c == '-' {
			b.WriteByte(c)
		} else {
			b.WriteByte('-')
			lost = true
		}
	}
	return b.String(), lost
}

// names gives each descriptor's policy a name.
type names struct{ taken map[string]bool }

func newNames() *names {
	taken := map[string]bool{"gcra": true}
	for _, algorithm := range store.Algorithms() {
		taken[algorithm.String()] = true // a policy cannot have such a name
	}
	return &names{taken}
}

// policy returns the name of the policy for a descriptor: DOMAIN-KEY-VALUE-KEY…. It depends on other descriptors only
// if they would have the same name, so that usage stays where it is when others change. A name that does not tell the
// whole descriptor ends with a hash of it.
func (n *names) policy(domain string, entries []configfile.EnvoyEntry) string {
	parts := []string{domain}
	for i := range entries {
		if parts = append(parts, entries[i].Key); entries[i].Fixed {
			parts = append(parts, entries[i].Value)
		}
	}
	name, lost := plain(strings.Join(parts, "-"))
	const hashed = 9 // bytes: a dash and 32 bits
	if lost || len(name) > policy.MaxNameLength || n.taken[name] {
		sum := sha256.Sum256(fmt.Appendf(nil, "%q", append([]string{domain}, words(entries)...)))
		begin := name[:min(len(name), policy.MaxNameLength-hashed)]
		for again := byte(0); again == 0 || n.taken[name]; again++ {
			name = begin + "-" + hex.EncodeToString(sum[:4])
			sum = sha256.Sum256(append(sum[:], again))
		}
	}
	n.taken[name] = true
	return name
}

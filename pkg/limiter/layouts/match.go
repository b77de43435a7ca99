package layouts

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/texts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// row is a layout as data: what its store keys are like, and what a value under them means.
type row struct {
	info Info
	// keys are the usual store keys, and others those of an operator who names the layout for them. The group
	// "subject" is the subject, without it the whole key is. What groups "name" match follows the layout's name.
	keys, others func() *regexp.Regexp
	// Without keys any will do, and those are usual that usual reports so, if it is not nil.
	usual func(storeKey string) bool
	// match is for store keys that no pattern describes.
	match func(storeKey string, asked bool) (store.Key, bool)
	// pair are the ends of two store keys that are read together. The first names the entry. together is for layouts
	// whose store keys belong together in another way.
	pair     [2]string
	together func(storeKey string, limit store.Limit, now store.Instant) []string
	// decode reads the values: (*row).count, (*row).arrival or a function of the limiter's own.
	decode func(r *row, found *Found) (Reading, error)
	// certain reports whether a value can hardly be anybody else's. Without it none is certain.
	certain func(found *Found, number int64) bool
	// noTTL is what a counter without an expiry means to the limiter, and never the known issue of one.
	noTTL noTTL
	never string
	// remains reports whether a counter counts down.
	remains func(storeKey string) bool
	// micros: what remains of an arrival time is counted in whole µs.
	micros bool
}

// noTTL is what a counter without an expiry means.
type noTTL int

const (
	counts     noTTL = iota // it never begins again
	beginsAnew              // the next request begins a new one
	blocks                  // a block for ever, or a limit without a period: no defect
)

// Info implements [Layout].
func (r *row) Info() Info { return r.info }

// Decode implements [Layout].
func (r *row) Decode(found *Found) (Reading, error) { return r.decode(r, found) }

// Match implements [Layout].
func (r *row) Match(storeKey string, asked bool) (store.Key, bool) {
	hasPrefix := func(prefix string) bool { return strings.HasPrefix(storeKey, prefix) }
	switch isUsual := r.info.Prefixes == nil || slices.ContainsFunc(r.info.Prefixes, hasPrefix); {
	case !asked && !isUsual: // most keys of a scan
		return store.Key{}, false
	case r.match != nil:
		return r.match(storeKey, asked)
	}
	key := store.Key{Subject: storeKey, Name: r.info.Name}
	if r.keys == nil {
		return key, storeKey != "" && (asked || r.usual == nil || r.usual(storeKey))
	}
	pattern := r.keys()
	at := pattern.FindStringSubmatchIndex(storeKey)
	if at == nil && asked && r.others != nil {
		pattern = r.others()
		at = pattern.FindStringSubmatchIndex(storeKey)
	}
	if at == nil {
		return store.Key{}, false
	}
	for i, group := range pattern.SubexpNames() {
		switch from, to := at[2*i], at[2*i+1]; {
		case from < to && group == "subject":
			key.Subject = storeKey[from:to]
		case from < to && strings.HasPrefix(group, "name"):
			key.Name += "/" + storeKey[from:to]
		}
	}
	return key, true
}

// Together implements [Layout].
func (r *row) Together(storeKey string, limit store.Limit, now store.Instant) []string {
	if r.together != nil {
		return r.together(storeKey, limit, now)
	}
	for _, end := range []string{r.pair[1], r.pair[0]} {
		if stem, ok := strings.CutSuffix(storeKey, end); ok && r.pair[1] != "" {
			return []string{stem + r.pair[0], stem + r.pair[1]}
		}
	}
	return []string{storeKey}
}

// keysLike compiles what store keys are like at its first use. They can hold line feeds.
func keysLike(pattern string) func() *regexp.Regexp { return texts.Regexp("(?s)" + pattern) }

var anyKey = keysLike(`.`)

// isNamedLikeALimiter reports whether a key has a word in it that limiters' keys have. Others are not worth a warning
// that they may be one's.
func isNamedLikeALimiter(storeKey string) bool {
	lower := strings.ToLower(storeKey)
	return slices.ContainsFunc([]string{"ratelimit", "rate_limit", "rate-limit", "rate:", "limiter", "limit:",
		"throttl", "quota", "rl:"},
		func(word string) bool { return strings.Contains(lower, word) })
}

// isNotThrottleds: throttled's middleware makes a key of parts of a request, each with a line feed behind it.
func isNotThrottleds(storeKey string) bool {
	return len(storeKey) < 2 || !strings.HasSuffix(storeKey, "\n")
}

// groupsOf returns what the groups of a pattern match in a store key, nil if it does not match.
func groupsOf(pattern func() *regexp.Regexp, storeKey string) map[string]string {
	found := pattern().FindStringSubmatch(storeKey)
	if found == nil {
		return nil
	}
	groups := map[string]string{}
	for i, name := range pattern().SubexpNames() {
		groups[name] = found[i]
	}
	return groups
}

// cutLast cuts a text at the last separator.
func cutLast(text, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(text, separator); i >= 0 {
		return text[:i], text[i+len(separator):], true
	}
	return "", text, false
}

// windowNumber reads a window's number as limiters write it.
func windowNumber(text string) (index int64, ok bool) {
	index, err := strconv.ParseInt(text, 10, 64)
	return index, err == nil && index > 0 && strconv.FormatInt(index, 10) == text
}

// isAddress reports whether a text is an IP address.
func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

package layouts

import (
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

// lifetime is how long a limiter keeps a store key, as far as we know. The zero lifetime is that of a counter which
// ends with its key, and of which nothing more is known. It is not for limiters that have keys without an expiry on
// purpose.
type lifetime struct {
	// longest is the longest TTL that the limiter gives a key, jitter included. 0 is not known: then only what no
	// limit can last is absurd.
	longest time.Duration
	// passes: the value stops counting by itself at some time, by a time in it or by the window's number in the key,
	// and a request gives it a new expiry or has a key of its own. Without it the count ends only with the key.
	passes bool
	// never and absurd are the known issues of these defects, such as "Kong/kong#5763"; empty if there is none.
	never, absurd string
}

// longestLimit is more than any limit lasts: two years.
const longestLimit = 2 * 366 * 24 * time.Hour

// reading returns the reading of all that was found as one limit, with the defects of its entry.
func (l lifetime) reading(found *Found, entry admin.Entry, certain bool) (Reading, error) {
	entry.Defects = l.defects(&entry, found.Values)
	return Reading{Entries: []admin.Entry{entry}, Certain: certain}, nil
}

// defects returns what is wrong with how long the values of an entry are kept, each kind at most once. Those that are
// not there are not looked at.
func (l lifetime) defects(e *admin.Entry, values []Value) (found []admin.Defect) {
	var never, absurd bool
	var longestTTL time.Duration
	for i := range values {
		switch value := &values[i]; {
		case value.Type == NoValue:
		case value.TTL < 0:
			never = true
		case l.isAbsurd(value.TTL):
			absurd, longestTTL = true, max(longestTTL, value.TTL)
		}
	}
	stuck := !l.passes || isUnused(e)
	if never {
		text := withIssue("no expiry, so "+l.consequence(e, true), l.never)
		found = append(found, admin.Defect{Kind: admin.NeverExpires, Text: text, Stuck: stuck})
	}
	if absurd {
		text := "an expiry much later than the limit can last"
		if l.inMilliseconds(longestTTL) {
			text = "an expiry that looks like milliseconds given as seconds"
		}
		text = withIssue(text+", so "+l.consequence(e, longestTTL > longestLimit), l.absurd)
		found = append(found, admin.Defect{Kind: admin.AbsurdTTL, Text: text, Stuck: stuck})
	}
	return found
}

// isAbsurd reports whether no limit explains a TTL, not even one that was changed a while ago.
func (l lifetime) isAbsurd(ttl time.Duration) bool {
	const times, atLeast = 10, time.Minute
	if l.longest <= 0 || l.longest > longestLimit/times {
		return ttl > longestLimit
	}
	return ttl > times*l.longest && ttl > l.longest+atLeast
}

// consequence is what follows for who is limited from a key that stays for ever, or much too long.
func (l lifetime) consequence(e *admin.Entry, forEver bool) string {
	switch {
	case l.passes && isUnused(e):
		return "the key stays although it counts for nothing"
	case l.passes:
		return "the key stays when it counts for nothing any more"
	case e.AtLimit() && forEver:
		return "it denies for ever"
	case e.AtLimit():
		return "it denies until then"
	case !forEver:
		return "its count does not begin again until then, and it denies once it is at the limit"
	}
	return "its count never begins again: it denies for ever once it is at the limit"
}

// inMilliseconds reports whether a TTL is what comes of milliseconds that were given for seconds: a period's, or a
// time's since 1970, which is tens of thousands of years away.
func (l lifetime) inMilliseconds(ttl time.Duration) bool {
	const ages = 250 * 366 * 24 * time.Hour // nearly the longest that a Duration can be
	return ttl > ages || l.longest > 0 && ttl/1000 <= l.longest+time.Second && ttl/1000 > l.longest/4
}

// isUnused reports whether an entry is known to have nothing in use.
func isUnused(e *admin.Entry) bool {
	return e.UsedKnown() && e.Used <= 0 || e.UsedUnknown && e.ResetTold && e.ResetAfter <= 0
}

func withIssue(text, issue string) string {
	if issue == "" {
		return text
	}
	return text + " (" + issue + ")"
}

package layouts

import (
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// gitlab is GitLab's ApplicationRateLimiter: a counter for each window, which windows are
// numbered from 1970 on, or a set of the resources that were asked for in it. From 2026 on its
// counters move to those of labkit, whose windows begin with the first request, and which has a
// key for each client that is banned.
type gitlab struct{}

const (
	gitlabPrefix = "application_rate_limiter:"
	labkitPrefix = "labkit:rl:"
	labkitBan    = ":ban"
)

// Info implements [Layout].
func (gitlab) Info() Info {
	return Info{
		Name: "gitlab", Called: "a counter of GitLab", Writer: "GitLab (ApplicationRateLimiter and labkit)",
		Example: "application_rate_limiter:users_get_by_id:user:42:2992157", Type: "string or set",
		Prefixes: []string{gitlabPrefix, labkitPrefix}, Needs: "the count; of labkit the limit",
		Source: "gitlab.com/gitlab-org/gitlab 0286e4c6; of labkit its specs only",
	}
}

// Match implements [Layout]. A key is the prefix, the action, whom it concerns, and the window's
// number. labkit's is the limiter, the rule, and the characteristics, all in braces.
func (gitlab) Match(storeKey string, _ bool) (store.Key, bool) {
	if rest, ok := strings.CutPrefix(storeKey, gitlabPrefix); ok {
		action, number, ok := cutLastColon(rest)
		action, scope, has := strings.Cut(action, ":")
		if !has {
			scope = action
		}
		_, isNumber := windowNumber(number)
		return store.Key{Subject: scope, Name: "gitlab/" + action}, ok && isNumber && action != "" && scope != ""
	}
	rest, ok := strings.CutPrefix(strings.TrimSuffix(storeKey, labkitBan), labkitPrefix)
	if !ok {
		return store.Key{}, false
	}
	rest = strings.TrimSuffix(strings.TrimPrefix(rest, "{"), "}")
	name, rest, _ := strings.Cut(rest, ":")
	rule, subject, _ := strings.Cut(rest, ":")
	return store.Key{Subject: subject, Name: "gitlab/" + name + ":" + rule}, name != "" && rule != "" && subject != ""
}

// Together implements [Layout].
func (gitlab) Together(storeKey string, _ store.Limit, _ store.Instant) []string {
	if strings.HasPrefix(storeKey, labkitPrefix) {
		counter := strings.TrimSuffix(storeKey, labkitBan)
		return []string{counter, counter + labkitBan}
	}
	return []string{storeKey}
}

// Decode implements [Layout]. Of a set only its size counts.
func (g gitlab) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	if strings.HasPrefix(found.StoreKey, labkitPrefix) {
		return g.labkit(found, value, &found.Values[1])
	}
	count, err := gitlabCount(value)
	if err != nil {
		return Reading{}, err
	}
	_, number, _ := cutLastColon(found.StoreKey)
	index, _ := windowNumber(number)
	entry, agree := windowCounter(found, count, index)
	return Reading{Entries: []admin.Entry{entry}, Certain: agree && count >= 0}, nil
}

func gitlabCount(value *Value) (int64, error) {
	switch value.Type {
	case NoValue:
		return 0, nil
	case SetValue:
		return value.Length, nil
	case StringValue:
		return countOf(value)
	default:
		return 0, notA(value.Type, StringValue, SetValue)
	}
}

// labkit decodes a counter and a ban of labkit.
func (gitlab) labkit(found *Found, counter, ban *Value) (Reading, error) {
	count, err := gitlabCount(counter)
	if err != nil {
		return Reading{}, err
	}
	if ban.Type != NoValue && ban.Type != StringValue {
		return Reading{}, notA(ban.Type, StringValue)
	}
	ends := counter.TTL
	if counter.Type == NoValue {
		ends = 0
	}
	entry := countEntry(fromFirst(found.Limit), count, ends)
	entry.Defects = lifetime{}.defects(&entry, found.Values)
	switch {
	case ban.Type == NoValue:
	case ban.TTL < 0:
		blockEntry(&entry, 0)
		entry.RetryTold, entry.ResetTold = false, false
	default:
		blockEntry(&entry, ban.TTL)
	}
	certain := count >= 0 && strings.HasPrefix(found.StoreKey, labkitPrefix+"{") && (counter.Type == NoValue || couldBePeriod(counter.TTL))
	return Reading{Entries: []admin.Entry{entry}, Certain: certain}, nil
}

// SetRemaining implements [Setter].
func (gitlab) SetRemaining(found *Found, remaining int64) ([]Write, error) {
	if !strings.HasPrefix(found.StoreKey, labkitPrefix) {
		_, number, _ := cutLastColon(found.StoreKey)
		index, _ := windowNumber(number)
		return setWindowCounter(found, index, remaining)
	}
	counter, ban := &found.Values[0], &found.Values[1]
	if counter.Type == SetValue || ban.Type != NoValue {
		return nil, store.Invalidf("what remains can be set only for a counter of a client that is not banned")
	}
	return setCounter(counter, found.Limit, remaining, found.Limit.Period)
}

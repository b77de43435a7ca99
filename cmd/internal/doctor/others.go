package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/internal/redisserver"
)

const (
	// sampledKeys is the most keys whose sizes are compared, over all masters. A server has them in an order that
	// says nothing about their names, so the first ones are a fair sample.
	sampledKeys = 10_000
	// sampledOfEach is the least of each master, if there are many.
	sampledOfEach = 1000
	// sampledMembers is how many members of a key a server measures, so that a large hash takes as long as a small
	// one.
	sampledMembers = 5
	// shownPrefixes is how many prefixes of other keys are named.
	shownPrefixes = 5
	// noPrefix is the name for keys that do not begin with a word and a separator.
	noPrefix = "(no prefix)"
)

// weight is the number of some sampled keys and what they take.
type weight struct {
	keys, bytes int64
	scaled      float64 // what all such keys are estimated to take
}

func (w *weight) add(more weight) {
	w.keys, w.bytes, w.scaled = w.keys+more.keys, w.bytes+more.bytes, w.scaled+more.scaled
}

// otherFacts are the results of sampling all keys of the servers, also those that are not under the prefix.
type otherFacts struct {
	prefix       string
	total        int64 // keys of all servers, if counted
	counted      bool
	complete     bool // all keys were sampled
	ours, others weight
	kinds        map[string]*weight // the others, by prefix
	biggest      ranking            // of the others
	unmeasured   int64              // sampled keys of others whose sizes are unknown
	right        verdict            // of the user to measure others
	missed       int64              // bytes of data that the sample does not explain
	databases    map[string]int64   // keys of databases that are not sampled, by "db1"
}

// others compares what the keys under the prefix take with what all others take.
func (e *examination) others(ctx context.Context, servers []*server) error {
	facts := otherFacts{prefix: e.Prefix, counted: true, complete: true, kinds: map[string]*weight{}, databases: map[string]int64{}}
	most := max(sampledOfEach, sampledKeys/len(servers))
	if e.ScanLimit > 0 {
		most = max(1, min(most, e.ScanLimit/len(servers)))
	}
	for _, s := range servers {
		err := facts.sample(ctx, s, most)
		if redisserver.IsReply(err) {
			return nil // the check of the keys has said which right is missing
		}
		if err != nil {
			return err
		}
	}
	e.report.add(facts.judge(redisserver.User(e.client)))
	return nil
}

// sample reads the names of about most keys of a server, and measures them.
func (f *otherFacts) sample(ctx context.Context, s *server, most int) error {
	var names []string
	scan := redisserver.Scan[string]{
		Servers: s.alone, Match: "*",
		Select: func(storeKey string) (string, bool) { return storeKey, true },
		Read: func(_ context.Context, page redisserver.Page[string]) error {
			names = append(names, page.Keys...)
			return nil
		},
	}
	coverage, err := scan.Server(ctx, s.client, most)
	if err != nil {
		return err
	}
	sizes, err := f.measure(ctx, s.client, names)
	if err != nil {
		return err
	}
	f.total += coverage.Total
	f.counted, f.complete = f.counted && coverage.Counted, f.complete && coverage.Complete
	var bytes int64
	for _, size := range sizes {
		bytes += max(0, size)
	}
	scale := 1.0
	dataset := s.before.Int("used_memory_dataset")
	if !coverage.Complete && coverage.Counted && len(names) > 0 {
		scale = float64(coverage.Total) / float64(len(names))
		if dataset > 0 && bytes > 0 { // a huge key is in the sample, and there are not as many of them
			scale = min(scale, float64(dataset)/float64(bytes))
		}
		scale = max(1, scale)
	}
	for i, name := range names {
		f.add(name, sizes[i], scale)
	}
	if missed := dataset - int64(float64(bytes)*scale); !coverage.Complete && coverage.Counted && f.unmeasured == 0 {
		f.missed += max(0, missed)
	}
	own := fmt.Sprint("db", s.client.Options().DB)
	for name, value := range s.before { // "db1:keys=5,expires=0,avg_ttl=0"
		if keys := databaseKeys(name, value); keys > 0 && name != own {
			f.databases[name] += keys
		}
	}
	return nil
}

// Sizes of keys that have none.
const (
	isUnknown = -1
	isGone    = -2 // it has expired or moved
)

// measure returns the sizes of keys.
func (f *otherFacts) measure(ctx context.Context, client *redis.Client, names []string) ([]int64, error) {
	if at := slices.IndexFunc(names, func(name string) bool { return !f.isOurs(name) }); at >= 0 {
		is, err := mayMeasure(ctx, client, names[at])
		if err != nil {
			return nil, err
		}
		f.right = max(f.right, is)
	}
	sizes := make([]int64, 0, len(names))
	for batch := range slices.Chunk(names, redisserver.KeysPerRead) {
		pipe := client.Pipeline()
		answers := make([]*redis.IntCmd, len(batch))
		for i, name := range batch {
			if f.isOurs(name) || f.right == allowed {
				answers[i] = pipe.MemoryUsage(ctx, name, sampledMembers)
			}
		}
		if _, err := pipe.Exec(ctx); err != nil && !redisserver.IsReply(err) {
			return nil, err
		}
		for _, answer := range answers {
			switch {
			case answer == nil:
				sizes = append(sizes, isUnknown)
			case errors.Is(answer.Err(), redis.Nil) || redisserver.IsElsewhere(answer.Err()):
				sizes = append(sizes, isGone)
			case answer.Err() != nil:
				sizes = append(sizes, isUnknown)
			default:
				sizes = append(sizes, max(0, answer.Val()))
			}
		}
	}
	return sizes, nil
}

// add adds a key. One of its kind stands for scale others.
func (f *otherFacts) add(name string, size int64, scale float64) {
	one := weight{1, max(0, size), float64(max(0, size)) * scale}
	switch {
	case size == isGone:
		return
	case f.isOurs(name):
		f.ours.add(one)
		return
	case size == isUnknown:
		f.unmeasured++
	}
	f.biggest.add(ranked{storeKey: name, value: one.bytes})
	f.others.add(one)
	kind := kindOf(name)
	if f.kinds[kind] == nil {
		f.kinds[kind] = &weight{}
	}
	f.kinds[kind].add(one)
}

// isOurs reports whether a store key is of limitctl, or in the way of one.
func (f *otherFacts) isOurs(name string) bool {
	rest, has := strings.CutPrefix(name, f.prefix)
	return has && (strings.HasPrefix(rest, ":") || strings.HasPrefix(rest, "!"))
}

// mayMeasure returns whether the user may measure a key that is not ours. It asks the server, since trying would
// leave a line in its log of refusals. On a server that does not tell, it tries.
func mayMeasure(ctx context.Context, client *redis.Client, name string) (verdict, error) {
	try := []any{"memory", "usage", name, "samples", sampledMembers}
	user, err := client.ACLWhoAmI(ctx).Result()
	var answer string
	if err == nil {
		answer, err = client.Do(ctx, append([]any{"acl", "dryrun", user}, try...)...).Text()
	}
	if err != nil && redisserver.IsReply(err) {
		if err = client.Do(ctx, try...).Err(); err != nil && redisserver.IsReply(err) {
			return readVerdict(err.Error()), nil
		}
	}
	return readVerdict(answer), err
}

// databaseKeys returns the number of keys of a database in INFO; 0 if a field is about something else.
func databaseKeys(name, value string) (keys int64) {
	number, isDatabase := strings.CutPrefix(name, "db")
	if !isDatabase || strings.Trim(number, "0123456789") != "" {
		return 0
	}
	count, _, _ := strings.Cut(strings.TrimPrefix(value, "keys="), ",")
	return redisserver.Info{name: count}.Int(name)
}

// longestKind is the most bytes of a kind's name.
const longestKind = 40

// kindOf returns the kind of data that a key is by its name: "session:*" for "session:9f31". That is the text before
// the first of the usual separators, or without one of them, before a dash or an underscore. A separator at the
// beginning does not count: Django writes ":1:views". A key that begins with a number or another id has no prefix,
// since each would be a kind of its own.
func kindOf(name string) string {
	for _, separators := range []string{":/.|#}", "-_"} {
		begin := len(name) - len(strings.TrimLeft(name, separators+"{"))
		end := strings.IndexAny(name[begin:], separators)
		if end <= 0 {
			continue
		}
		if isID(name[begin:begin+end]) && name[0] != ':' {
			return noPrefix
		}
		kind := name[:begin+end+1]
		if len(kind) > longestKind {
			return strings.ToValidUTF8(kind[:longestKind], "�") + "…*"
		}
		if !utf8.ValidString(kind) {
			kind = strings.ToValidUTF8(kind, "�")
		}
		return kind + "*"
	}
	return noPrefix
}

// isID reports whether a word is a number, or eight and more hexadecimal digits as in a UUID or a hash.
func isID(word string) bool {
	return strings.Trim(word, "0123456789") == "" || len(word) >= 8 && strings.Trim(word, "0123456789abcdefABCDEF-") == ""
}

// prefixWeight is a prefix and what its keys take.
type prefixWeight struct {
	name string
	weight
}

// ranked returns the prefixes that take most, and the sum of the rest with their number. Without sizes those with
// most keys are first. A single key with a dash or an underscore is no kind: it is a random text.
func (f *otherFacts) ranked() (top []prefixWeight, rest weight, more int) {
	var none weight
	for name, w := range f.kinds {
		if name == noPrefix || w.keys == 1 && (strings.HasSuffix(name, "-*") || strings.HasSuffix(name, "_*")) {
			none.add(*w)
			continue
		}
		top = append(top, prefixWeight{name, *w})
	}
	if none.keys > 0 {
		top = append(top, prefixWeight{noPrefix, none})
	}
	slices.SortFunc(top, func(a, b prefixWeight) int {
		return cmp.Or(cmp.Compare(b.scaled, a.scaled), cmp.Compare(b.keys, a.keys), cmp.Compare(a.name, b.name))
	})
	if len(top) > shownPrefixes {
		for _, w := range top[shownPrefixes:] {
			rest.add(w.weight)
			more++
		}
		top = top[:shownPrefixes]
	}
	return top, rest, more
}

// Much data that the sample does not explain is worth a word: as much as the rest, and more than a server needs for
// itself.
const missedWorth = 64 << 20

// judge describes the keys of others. They are no problem by themselves, so it does not warn.
func (f *otherFacts) judge(user string) Finding {
	top, rest, more := f.ranked()
	sampled := f.ours.keys + f.others.keys
	found := Finding{Check: "other keys", Status: OK, Data: map[string]any{"sampled_keys": sampled, "complete": f.complete,
		"sampled_bytes": f.ours.bytes + f.others.bytes, "other_keys": f.others.keys, "other_bytes": f.others.bytes,
		"estimated_other_bytes": int64(f.others.scaled), "unmeasured": f.unmeasured, "other_databases": f.databases}}
	among := keys(sampled, " sampled")
	switch {
	case f.complete:
		among = "all " + keys(sampled, "")
	case f.counted:
		among += " of " + output.Thousands(f.total)
	}
	sized := f.unmeasured < f.others.keys
	what := func(w weight) string {
		if w.bytes > 0 {
			return output.Bytes(int64(w.scaled))
		}
		return keys(w.keys, "")
	}
	var texts []string
	prefixes := []map[string]any{}
	for _, w := range top {
		texts = append(texts, output.Printable(w.name)+" "+what(w.weight))
		prefixes = append(prefixes, map[string]any{"prefix": w.name, "keys": w.keys, "bytes": w.bytes,
			"estimated_bytes": int64(w.scaled)})
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("%s more prefixes %s", output.Thousands(int64(more)), what(rest)))
	}
	found.Data["prefixes"] = prefixes
	switch list := strings.Join(texts, ", "); {
	case f.others.keys == 0:
		found.Summary = "none among " + among
	case sized:
		share := f.others.scaled / max(1, f.others.scaled+f.ours.scaled)
		found.Data["share"] = share
		found.Summary = fmt.Sprintf("%s of the bytes of %s, about %s: %s", percent(share), among,
			output.Bytes(int64(f.others.scaled)), list)
		found.Summary += f.biggestText()
	default:
		found.Summary = fmt.Sprintf("%s of %s, of unknown size: %s", output.Thousands(f.others.keys), among, list)
	}
	if f.unmeasured > 0 && sized {
		found.Summary += fmt.Sprintf("; of %s the size is unknown", keys(f.unmeasured, ""))
	}
	if f.unmeasured > 0 && f.right != unknown {
		rules := []string{"%R~*"}
		if f.right == denied {
			rules = append(rules, "+memory|usage")
		}
		found.Advice = "to see their sizes: " + shell.SetUser(user, rules...)
	}
	if explained := int64(f.ours.scaled + f.others.scaled); f.missed > max(missedWorth, explained) {
		found.Data["missed_bytes"] = f.missed
		found.Summary += fmt.Sprintf("; about %s more is in few large keys or other databases; redis-cli --bigkeys looks for them",
			output.Bytes(f.missed))
	}
	for _, name := range slices.Sorted(maps.Keys(f.databases)) {
		found.Summary += fmt.Sprintf("; database %s has %s", strings.TrimPrefix(name, "db"), keys(f.databases[name], ""))
	}
	return found
}

// biggestText names the biggest key, if it is a good part of the whole.
func (f *otherFacts) biggestText() string {
	big := f.biggest[0]
	if f.others.keys == 1 || big.value*10 < f.others.bytes {
		return ""
	}
	name := output.Printable(output.Shorten(big.storeKey, longestRanked))
	return fmt.Sprintf("; the biggest is %s with %s", name, output.Bytes(big.value))
}

// percent writes an estimated share. A little is not nothing, and there may be more than was sampled.
func percent(share float64) string {
	switch {
	case share > 0 && share < 0.01:
		return "less than 1 %"
	case share > 0.99:
		return "more than 99 %"
	}
	return fmt.Sprintf("about %.0f %%", share*100)
}

// keys writes a number of keys.
func keys(n int64, adjective string) string {
	if n == 1 {
		return "1" + adjective + " key"
	}
	return output.Thousands(n) + adjective + " keys"
}

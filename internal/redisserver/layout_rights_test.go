package redisserver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// anyValue is a layout for tests: every value of any type under "any:" is a limit.
type anyValue struct{}

func (anyValue) Info() layouts.Info { return layouts.Info{Name: "any", Prefixes: []string{"any:"}} }

func (anyValue) Match(storeKey string, _ bool) (store.Key, bool) {
	subject, ok := strings.CutPrefix(storeKey, "any:")
	return store.Key{Subject: subject, Name: "any"}, ok
}

func (anyValue) Together(storeKey string, _ store.Limit, _ store.Instant) []string {
	return []string{storeKey}
}

func (anyValue) Decode(found *layouts.Found) (layouts.Reading, error) {
	value := &found.Values[0]
	if value.Type == layouts.NoValue {
		return layouts.Reading{}, nil
	}
	e := admin.Entry{Limit: found.Limit, Decision: store.Decision{Used: max(1, value.Length)}}
	return layouts.Reading{Entries: []admin.Entry{e}, Certain: true}, nil
}

// operateLayout does with the keys of another limiter what a role has to do.
func operateLayout(role *redisserver.Role, backend *redisstore.Store, _ func()) error {
	limit := store.Limit{Algorithm: store.FixedWindow, Count: 100, Period: time.Minute}
	keys := backend.OtherLimiters(layouts.Sources{{Layout: anyValue{}, Limit: limit}})
	var records []admin.Record
	for e, err := range keys.Scan(ctx, admin.Query{Subjects: everyKey, Records: role.Writes, Bytes: true}) {
		if err != nil {
			return err
		}
		records = append(records, e.Record)
	}
	if len(records) != 5 {
		return fmt.Errorf("found are %d limits, want 5", len(records))
	}
	if !role.Writes {
		return nil
	}
	if deleted, changed, err := keys.Delete(ctx, records...); err != nil || deleted != 5 || len(changed) != 0 {
		return fmt.Errorf("deleted are %d, changed %d: %w", deleted, len(changed), err)
	}
	for _, replace := range []bool{false, true} {
		if outcomes, err := keys.Import(ctx, replace, records...); err != nil {
			return fmt.Errorf("importing came to %v, %w", outcomes, err)
		}
	}
	return nil
}

// With the documented rights a reader can read the keys of other limiters and an operator can change them, and
// nothing is refused. Without any one of the rights, something is.
func TestDocumentedRightsOfLayouts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	owner := server.Client()
	needed := slices.DeleteFunc(layoutRights("any:none"), func(right redisserver.Right) bool {
		return right.Command == "hlen" // which only a large hash needs
	})
	for _, role := range redisserver.Roles() {
		if role.Name == "writer" {
			continue
		}
		rule := append(role.Rule("rl"), layoutRule(&role, "any:")...)
		examineRights(t, server, &role, rule, needed, func(name string) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: server.Addr, Username: name, Password: "pw", DisableIdentity: true})
		}, func() {
			owner.FlushAll(ctx)
			owner.Set(ctx, "any:string", 5, time.Hour)
			owner.HSet(ctx, "any:hash", "f", 5)
			owner.RPush(ctx, "any:list", 5)
			owner.SAdd(ctx, "any:set", 5)
			owner.ZAdd(ctx, "any:zset", redis.Z{Score: 5, Member: "a"})
		}, operateLayout)
	}
}

// layoutRule returns the words to add to a [redisserver.Role.Rule] for keys of other limiters with one of these prefixes.
func layoutRule(r *redisserver.Role, prefixes ...string) []string {
	var words []string
	for _, prefix := range prefixes {
		pattern := "~" + store.EscapeGlob(prefix) + "*"
		if !r.Writes {
			pattern = "%R" + pattern
		}
		words = append(words, pattern)
	}
	has := r.Rule("")
	for _, right := range layoutRights("") {
		if word := "+" + right.Command; r.Needs(right) && !slices.Contains(has, word) {
			words = append(words, word)
		}
	}
	return words
}

// layoutRights are the additional rights of roles to read and change the keys of other limiters. They are tried on
// an unused store key.
func layoutRights(storeKey string) []redisserver.Right {
	var (
		looking  = []string{"inspect", "doctor", "reset"}
		changing = []string{"reset", "undo"}
	)
	return []redisserver.Right{
		{Command: "hgetall", For: looking, Try: []any{"hgetall", storeKey}},
		{Command: "hlen", For: looking, Try: []any{"hlen", storeKey}},
		{Command: "llen", For: looking, Try: []any{"llen", storeKey}},
		{Command: "lrange", For: looking, Try: []any{"lrange", storeKey, 0, 0}},
		{Command: "scard", For: looking, Try: []any{"scard", storeKey}},
		{Command: "zcard", For: looking, Try: []any{"zcard", storeKey}},
		{Command: "zrange", For: looking, Try: []any{"zrange", storeKey, 0, 0}},
		{Command: "dump", For: changing, Try: []any{"dump", storeKey}},
		{Command: "unlink", For: changing, Try: []any{"unlink", storeKey}, Writes: true},
		{Command: "restore", For: []string{"undo"}, Try: []any{"restore", storeKey, -1, ""}, Writes: true},
	}
}

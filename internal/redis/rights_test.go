package redisserver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/doctor"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// role is a kind of user, with exactly the rights that its commands need.
type role struct {
	Name   string
	For    []string // the commands
	Writes bool
}

var roles = []role{
	{"reader", []string{"check", "inspect", "denials", "audit"}, false},
	{"writer", []string{"check", "consume", "refund"}, true},
	{"operator", redisserver.Commands(), true},
}

func (r *role) needs(right redisserver.Right) bool {
	return slices.ContainsFunc(right.For, func(command string) bool { return slices.Contains(r.For, command) })
}

// words are those of an ACL that allow what the role needs of rights.
func (r *role) words(rights []redisserver.Right) (words []string) {
	for _, right := range rights {
		if r.needs(right) {
			words = append(words, "+"+right.Command)
		}
	}
	return words
}

// rule are the words after the name and password.
func (r *role) rule() []string {
	return append([]string{"resetkeys", redisserver.KeyRule("rl", r.Writes), redisserver.BesideRule("rl", r.Writes),
		"-@all"}, r.words(redisserver.Rights("rl"))...)
}

// The documented users have exactly the rights of the table.
func TestDocumentedRights(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	must(t, err)
	lines := strings.Split(string(text), "\n")
	n := 0
	for _, line := range lines {
		if strings.HasPrefix(line, "redis-cli ACL SETUSER limits-") &&
			!strings.HasPrefix(line, "redis-cli ACL SETUSER limits-loadtest ") &&
			!strings.Contains(line, "~rate:") {
			n++
		}
	}
	for _, role := range roles {
		for _, want := range []string{
			forShells(append([]string{"redis-cli", "ACL", "SETUSER", "limits-" + role.Name, "on", ">PASSWORD"},
				role.rule()...)),
			forShells(append([]string{"redis-cli", "ACL", "SETUSER", "limits-" + role.Name},
				role.words(redisserver.ClusterRights())...)),
		} {
			if !slices.Contains(lines, want) {
				t.Errorf("docs/operations.md has no line\n%s", want)
			}
			n--
		}
	}
	if n != 0 {
		t.Errorf("docs/operations.md has %d lines of rights more than there are roles", n)
	}
}

// forShells joins words, and quotes those that are special to a shell.
func forShells(words []string) string {
	for i, word := range words {
		if strings.ContainsAny(word, ">~*%|!") {
			words[i] = "'" + word + "'"
		}
	}
	return strings.Join(words, " ")
}

// With the documented rights nothing that a role does is refused; without any one of those of a command something
// of it is.
func TestDocumentedRightsSuffice(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	t.Parallel()
	server := redistest.Start(t)
	as := func(name string) redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: server.Addr, Username: name, Password: "pw", DisableIdentity: true})
	}
	again := prepareRepertoire(t, server, as)
	for _, role := range roles {
		examineRights(t, server, &role, role.rule(), doctorsOnly(), as, again, repertoire)
	}
	for _, command := range redisserver.Commands() {
		if command != "doctor" { // which is for operators
			role := role{Name: command, For: []string{command},
				Writes: !slices.Contains([]string{"check", "inspect", "denials", "audit"}, command)}
			examineRights(t, server, &role, role.rule(), redisserver.Rights("rl"), as, again, repertoire)
		}
	}
}

// doctorsOnly are the rights that only the doctor needs.
func doctorsOnly() []redisserver.Right {
	return slices.DeleteFunc(redisserver.Rights("rl"), func(right redisserver.Right) bool {
		return !slices.Equal(right.For, []string{"doctor"})
	})
}

func TestDocumentedRightsSufficeInACluster(t *testing.T) {
	tier.Full(t, "a Cluster or Sentinels")
	t.Parallel()
	server := redistest.Start(t, "--cluster-enabled", "yes")
	server.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(fmt.Sprint(server.Do("CLUSTER", "INFO")),
		"cluster_state:ok"); {
		if time.Now().After(deadline) {
			t.Fatal("the cluster does not begin to serve")
		}
		time.Sleep(10 * time.Millisecond)
	}
	as := func(name string) redis.UniversalClient {
		return redis.NewClusterClient(
			&redis.ClusterOptions{Addrs: []string{server.Addr}, Username: name, Password: "pw",
				DisableIdentity: true, MaxRedirects: -1})
	}
	again := prepareRepertoire(t, server, as)
	for _, role := range roles {
		rule := append(role.rule(), role.words(redisserver.ClusterRights())...)
		examineRights(t, server, &role, rule, redisserver.ClusterRights(), as, again, repertoire)
	}
}

// describes reports whether a command only describes a foreign value and no word of the rule gives the right to it:
// then an error has less detail, and nothing fails.
func describes(rule []string, command string) bool {
	return slices.Contains([]string{"llen", "lrange", "pttl", "memory|usage"}, command) &&
		!slices.Contains(rule, "+"+command)
}

// examineRights runs everything that the role is for as a user with the words of a rule, and then as one without
// each of rights.
func examineRights(t *testing.T, server *redistest.Server, role *role, rule []string,
	rights []redisserver.Right,
	connect func(user string) redis.UniversalClient, prepare func(),
	do func(*role, redis.UniversalClient, *redisstore.Store, func()) error) {
	t.Helper()
	try := func(words []string) (refused []string, err error) {
		prepare()
		command := []any{"ACL", "SETUSER", "tried", "reset", "on", ">pw"}
		for _, word := range words {
			command = append(command, word)
		}
		server.Do(command...)
		server.Do("ACL", "LOG", "RESET")
		client := connect("tried")
		backend, err := redisstore.Own(client)
		must(t, err)
		defer backend.Close()
		err = do(role, client, backend, func() { server.Do("SCRIPT", "FLUSH") })
		log, _ := server.Do("ACL", "LOG").([]any)
		for _, entry := range log {
			if command := fmt.Sprint(entry.(map[any]any)["object"]); !describes(rule, command) {
				refused = append(refused, command)
			}
		}
		return refused, err
	}
	if refused, err := try(rule); err != nil || len(refused) > 0 {
		t.Errorf("with the rights of the %s: %v; refused was %q", role.Name, err, refused)
	}
	for _, right := range rights {
		if !role.needs(right) || right.Command == "asking" || right.Command == "command" {
			continue // which are for moving slots
		}
		without := slices.DeleteFunc(slices.Clone(rule), func(word string) bool { return word == "+"+right.Command })
		refused, err := try(without)
		if !slices.Contains(refused, right.Command) {
			t.Errorf("the %s does without the right to %s; refused was %q", role.Name, right.Command, refused)
		}
		if right.Else != "" && err != nil {
			t.Errorf("without the right to %s, which is only better to have, the %s fails: %v", right.Command,
				role.Name, err)
		}
		if right.Else == "" && right.Before == "" && err == nil && !slices.Equal(right.For, []string{"doctor"}) {
			t.Errorf("without the right to %s the %s does not fail", right.Command, role.Name)
		}
	}
}

// The keys of a repertoire, one for each case of the scripts.
var (
	ctx         = context.Background()
	everyKey, _ = store.ParsePattern("*")
	hundred     = store.Limit{Count: 100, Period: time.Hour}
	fresh       = store.Key{Subject: "fresh"}
	bucketKey   = store.Key{Subject: "bucket"}
	wholeKey    = store.Key{Subject: "whole"}
	logKey      = store.Key{Subject: "log"}
	listKey     = store.Key{Subject: "list", Name: "token-bucket/1h"}
	textKey     = store.Key{Subject: "text", Name: "token-bucket/1h"}
	bigLog      = store.Limit{Algorithm: store.SlidingLog, Count: 500, Period: time.Hour}
)

// prepareRepertoire writes the keys once, and returns what brings them back as they were.
func prepareRepertoire(t *testing.T, server *redistest.Server, connect func(user string) redis.UniversalClient) (
	again func()) {
	t.Helper()
	server.Do("ACL", "SETUSER", "owner", "on", ">pw", "~*", "+@all")
	client := connect("owner")
	backend, err := redisstore.Own(client)
	must(t, err)
	t.Cleanup(func() { backend.Close() })
	l := storecall.New(backend)
	client.RPush(ctx, admin.OwnLayout("rl").StoreKey(listKey), "a")
	client.Set(ctx, admin.OwnLayout("rl").StoreKey(textKey), "somebody else's", 0)
	_, err1 := l.Take(ctx, bucketKey, hundred, 2)
	_, err0 := backend.SetOverride(ctx, store.Override{Effect: store.OverrideBlock}, time.Hour)
	_, err2 := l.Take(ctx, wholeKey, hundred, 2)
	err = errors.Join(err0, err1, err2)
	for range 70 { // too large to be read at once
		_, takeErr := l.Take(ctx, logKey, bigLog, 2)
		err = errors.Join(err, takeErr)
	}
	must(t, err)
	dumps, ttls := map[string]string{}, map[string]time.Duration{}
	for _, key := range client.Keys(ctx, "*").Val() {
		dumps[key], ttls[key] = client.Dump(ctx, key).Val(), max(0, client.PTTL(ctx, key).Val())
	}
	return func() {
		client.FlushAll(ctx)
		for key, dump := range dumps {
			must(t, client.Restore(ctx, key, ttls[key], dump).Err())
		}
	}
}

// repertoire does everything that a role is for, and returns the errors except those of foreign values. Before each
// command the server forgets the scripts.
func repertoire(role *role, client redis.UniversalClient, backend *redisstore.Store, forget func()) error {
	var errs []error
	note := func(err error) {
		if !onlyForeign(err) {
			errs = append(errs, err)
		}
	}
	decide := func(op store.Op, limit store.Limit, cost int64, keys ...store.Key) {
		for _, key := range keys {
			note(backend.Decide(ctx, op, []store.Request{{Key: key, Limit: limit, Cost: cost}},
				make([]store.Decision, 1)))
		}
	}
	scan := func(q admin.Query) (records []admin.Record) {
		for entry, err := range backend.Scan(ctx, q) {
			if untold := q.Bytes && err != nil && strings.Contains(err.Error(), "memory|usage"); !untold {
				note(err)
			}
			if err == nil {
				records = append(records, entry.Record)
			}
		}
		return records
	}
	nobody := store.Key{Subject: "nobody", Name: "x"}
	logOf, bucketOf := store.Key{Subject: logKey.Subject, Name: bigLog.DefaultName()},
		store.Key{Subject: bucketKey.Subject,
			Name: hundred.DefaultName()}
	for _, command := range role.For {
		forget()
		switch command {
		case "check":
			decide(store.Peek, hundred, 1, bucketKey, listKey, textKey)
			decide(store.Peek, bigLog, 1, fresh, logKey)
			list, _, err := backend.Overrides(ctx)
			if note(err); err == nil && len(list) != 1 {
				note(fmt.Errorf("%d overrides were found, want 1", len(list)))
			}
		case "inspect":
			subject, _ := store.ExactPattern(logKey.Subject)
			backend.Denials(ctx, time.Hour) // inspect works without
			scan(admin.Query{Subjects: everyKey, Bytes: true, Progress: func(int64, int64) {}})
			scan(admin.Query{Subjects: subject})
			scan(admin.Query{Keys: []store.Key{logOf}})
		case "consume":
			decide(store.Take, hundred, 1, bucketKey, listKey, textKey)
			decide(store.Take, bigLog, 1, fresh, logKey)
			addDenials(backend)
		case "refund":
			decide(store.Refund, hundred, 1, bucketKey, listKey, textKey, fresh)
			decide(store.Refund, hundred, 2, wholeKey)
			decide(store.Refund, bigLog, 1, logKey)
		case "reset":
			decide(store.Adjust, hundred, 5, bucketKey)
			decide(store.Adjust, hundred, 0, wholeKey)
			decide(store.Adjust, bigLog, 150, logKey)
			scan(admin.Query{Subjects: everyKey})
			records := scan(admin.Query{Keys: []store.Key{listKey, textKey, nobody, bucketOf, logOf}, Records: true})
			for i := range records {
				records[i].Value = append(records[i].Value, 'x') // as if it had been used since
			}
			_, changed, err := backend.Delete(ctx, append(records, admin.Records(listKey, textKey, nobody)...)...)
			if note(err); onlyForeign(err) && len(changed) != 2 {
				note(fmt.Errorf("%d records came back from the deletion, want 2", len(changed)))
			}
			backend.AppendJournal(ctx, "an entry of the audit") // a change works without
		case "undo":
			note(restore(backend, listKey, textKey, nobody))
			backend.AppendJournal(ctx, "an entry of the audit")
		case "override":
			set, err := backend.SetOverride(ctx, store.Override{Effect: store.OverrideExempt}, time.Hour)
			note(err)
			_, _, err = backend.Overrides(ctx)
			note(err)
			_, _, err = backend.RevokeOverride(ctx, set.ID)
			note(err)
		case "denials":
			// consume works without
			if _, err := backend.Denials(ctx, time.Hour); err != nil && !strings.Contains(err.Error(), "HGETALL") {
				note(err)
			}
		case "audit":
			backend.ReadJournal(ctx, 1) // audit works without
		case "doctor": // goes on without any, and says so
			report, err := doctor.Redis(ctx, client, doctor.Options{Prefix: "rl", Now: time.Now, Store: backend})
			if note(err); len(report.Findings) < 8 {
				note(fmt.Errorf("the doctor finds only %+v", report.Findings))
			}
		}
	}
	return errors.Join(errs...)
}

// addDenials adds so many denials that some are dropped. Takes ignore its errors.
func addDenials(backend *redisstore.Store) {
	for n := range 9 {
		var d admin.Denials
		for i := range admin.MaxDenialRows {
			d.Rows = append(d.Rows, admin.Denied{Key: store.Key{Subject: fmt.Sprintf("denied:%d:%d", n, i), Name: "n"},
				Count: 1})
		}
		backend.AddDenials(ctx, d)
	}
}

// restore imports a record under keys, of which only the last is free.
func restore(backend *redisstore.Store, keys ...store.Key) error {
	limit, err := hundred.Normalize()
	if err != nil {
		return err
	}
	var state store.State
	state.Charge(limit, 1, store.InstantOf(time.Now()))
	var records []admin.Record
	for _, key := range keys {
		records = append(records, admin.Record{
			Key: key, Value: state.AppendRecord(nil), Expires: time.Now().Add(time.Hour)})
	}
	for _, last := range []admin.ImportOutcome{admin.Imported, admin.AlreadyThere} {
		outcomes, err := backend.Import(ctx, last == admin.Imported, records...)
		if err == nil && !slices.Equal(outcomes, []admin.ImportOutcome{admin.Foreign, admin.Foreign, last}) {
			err = fmt.Errorf("the import's outcomes are %d", outcomes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// onlyForeign reports whether err is nil or consists only of errors about foreign values.
func onlyForeign(err error) bool {
	joined, is := err.(interface{ Unwrap() []error })
	if !is {
		return err == nil || errors.Is(err, store.ErrForeign)
	}
	return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !errors.Is(err, store.ErrForeign) })
}

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
func operateLayout(role *role, _ redis.UniversalClient, backend *redisstore.Store, _ func()) error {
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

// With the rights of the page a reader can read the keys of other limiters and an operator can change them.
func TestDocumentedRightsOfLayouts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations.md")
	must(t, err)
	server := redistest.Start(t)
	owner := server.Client()
	for _, role := range roles {
		kind := map[bool]string{false: "%R"}[role.Writes]
		_, words, is := strings.Cut(string(text), "\nredis-cli ACL SETUSER limits-"+role.Name+" '"+kind+"~rate:*' ")
		if !is {
			if role.Name != "writer" { // which has nothing to do with them
				t.Errorf("the page has no rights of the %s", role.Name)
			}
			continue
		}
		words, _, _ = strings.Cut(words, "\n")
		rule := append(append(role.rule(), kind+"~any:*"), strings.Fields(words)...)
		examineRights(t, server, &role, rule, nil, func(name string) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: server.Addr, Username: name, Password: "pw",
				DisableIdentity: true})
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

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

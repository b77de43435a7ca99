package lanes

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Script is a Lua script and the name the server caches it by.
type Script struct {
	Source, sha string
	shaWord     any // sha, as a command has it
}

// NewScript returns the script of a source.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source)) // the name EVALSHA knows a script by
	sha := hex.EncodeToString(sum[:])
	return &Script{Source: source, sha: sha, shaWord: sha}
}

// scripts are put together when first needed; a command needs one of them.
type scripts struct {
	// one, many and charging are of a kind: one request, many, and one that charges with a token, a last instant or what fits.
	one, many, charging                         []atomic.Pointer[Script]
	numbers, manyNumbers, chargingAny, complete atomic.Pointer[Script]
	all                                         sync.Map // those that were made: by their names, or by their sums if they decide
	// noReadOnly is set once the server turns out to be older than Redis 7,
	// which brought EVALSHA_RO. The scripts themselves never write on a peek.
	noReadOnly atomic.Bool
	// NoExpireTime is set once PEXPIRETIME, which came with Redis 7, is not to be
	// had.
	NoExpireTime atomic.Bool
}

func newScripts() *scripts {
	kinds := slices.Max(store.Kinds()) + 1
	slots := func() []atomic.Pointer[Script] { return make([]atomic.Pointer[Script], kinds) }
	return &scripts{one: slots(), many: slots(), charging: slots()}
}

// made returns the script in slot, which decides.
func (s *scripts) made(slot *atomic.Pointer[Script], source func() string) *Script {
	if slot.Load() == nil { // twice at worst, to the same
		made := NewScript(source())
		s.all.Store(made.sha, made)
		slot.Store(made)
	}
	return slot.Load()
}

// Named returns a script that does not decide.
func (s *scripts) Named(name lua.Name) *Script {
	made, has := s.all.Load(name)
	if !has {
		made, _ = s.all.LoadOrStore(name, NewScript(lua.Named(name)))
	}
	return made.(*Script)
}

// Deciding returns the shortest script that usually decides reqs. short says
// that it may leave that to the complete one.
func (s *scripts) Deciding(op store.Op, reqs []store.Request) (script *Script, short bool) {
	kind := reqs[0].Limit.Kind()
	isNumbers := func(r store.Request) bool { return r.Limit.Kind().DecidesShort() }
	usual := len(reqs) == 1 && !reqs[0].Shadow && (op == store.Take || op == store.Peek)
	switch {
	case usual && isNumbers(reqs[0]):
		return s.made(&s.one[kind], func() string { return lua.DecideOne(kind) }), true
	case len(reqs) == 1 && !isNumbers(reqs[0]):
		return s.made(&s.one[kind], func() string { return lua.Decide(kind) }), true
	case !slices.ContainsFunc(reqs, func(r store.Request) bool { return !isNumbers(r) }):
		return s.made(&s.numbers, lua.DecideNumbers), true
	}
	return s.decidingAll(), false
}

// decidingMany returns the shortest script that decides all groups of m.
func (s *scripts) decidingMany(m *merged) *Script {
	kind := m.groups[0][0].reqs[0].Limit.Kind().RecordsOf()
	for _, group := range m.groups {
		if slices.ContainsFunc(group[0].reqs, func(r store.Request) bool { return r.Limit.Kind().RecordsOf() != kind }) {
			return s.made(&s.manyNumbers, func() string { return lua.DecideMany(lua.Numbers()...) })
		}
	}
	return s.made(&s.many[kind], func() string { return lua.DecideMany(kind) })
}

// DecidingCharging returns the script for reqs. short says that it may leave them to the
// complete one.
func (s *scripts) DecidingCharging(reqs []store.Request) (script *Script, short bool) {
	if len(reqs) > 1 {
		return s.DecidingChargingAny(), false
	}
	kind := reqs[0].Limit.Kind().RecordsOf()
	return s.made(&s.charging[kind], func() string { return lua.DecideCharging(kind) }), true
}

func (s *scripts) DecidingChargingAny() *Script {
	return s.made(&s.chargingAny, func() string { return lua.DecideCharging(store.Kinds()...) })
}

func (s *scripts) decidingAll() *Script { return s.made(&s.complete, lua.DecideAny) }

// bySHA returns the script whose name occurs in an error message.
func (s *scripts) bySHA(message string) (found *Script) {
	s.all.Range(func(_, made any) bool {
		if script := made.(*Script); strings.Contains(message, script.sha) {
			found = script
		}
		return found == nil
	})
	return found
}

// Run calls the script. A call that changes something is sent at most once.
func (s *Sender) Run(ctx context.Context, changes bool, script *Script, keys []string, arguments []any) (*redis.Cmd, error) {
	words := append(make([]any, 2, 3+len(keys)+len(arguments)), len(keys))
	key := ""
	for i := range keys {
		key, words = keys[0], append(words, keys[i])
	}
	return s.send(ctx, s.Scripts.newCall(ctx, changes, script, key, append(words, arguments...)))
}

// Array runs a script that answers with an array, of elements that come in groups
// of a size, with or without one before them.
func (s *Sender) Array(ctx context.Context, changes bool, script *Script, storeKeys []string, arguments []any, size int) ([]any, error) {
	cmd, err := s.Run(ctx, changes, script, storeKeys, arguments)
	if err != nil {
		return nil, err
	}
	reply, err := cmd.Slice()
	if err != nil || len(reply)%size > 1 {
		return nil, sentError{redisserver.ErrAnswer}
	}
	return reply, nil
}

// Text reads a text in an array. An element of another type, which our scripts do not send, is empty.
func Text(element any) string {
	s, _ := element.(string)
	return s
}

// Integer reads a number in an array. An element of another type, which our scripts do not send, is 0.
func Integer(element any) int64 {
	n, _ := element.(int64)
	return n
}

// ExpiryOf reads an instant in ms since the epoch, -1 being never.
func ExpiryOf(element any) time.Time {
	if ms := Integer(element); ms > 0 {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

// newCall returns a call of script by its name. It fills in the first two of its words.
func (s *scripts) newCall(ctx context.Context, changes bool, script *Script, key string, words []any) *call {
	script.command(words, true, !changes && !s.noReadOnly.Load())
	return &call{Cmd: *redis.NewCmd(ctx, words...), once: changes, key: key, reads: !changes, script: script}
}

// reworded returns c as the server can be asked that answered err: with the script's source if it
// does not know that, after a restart, a failover or SCRIPT FLUSH, and without EVALSHA_RO if it
// is too old. These answers come before anything runs, so calling again cannot charge twice. It
// is nil if err is about anything else.
func (s *scripts) reworded(ctx context.Context, c *call, err error) *call {
	if err == nil || c == nil || c.script == nil {
		return nil
	}
	words := slices.Clone(c.Cmd.Args())
	name := words[0].(string)
	byName, readOnly := strings.HasPrefix(name, "evalsha"), strings.HasSuffix(name, "_ro")
	switch {
	case byName && redisserver.IsErrorReply(err, "NOSCRIPT"):
		byName = false
	case readOnly && redisserver.IsErrorReply(err, "ERR unknown command"):
		s.noReadOnly.Store(true)
		readOnly = false
	default:
		return nil
	}
	c.script.command(words, byName, readOnly)
	return &call{Cmd: *redis.NewCmd(ctx, words...), once: c.once, key: c.key, reads: c.reads, script: c.script}
}

// command fills in the first two words of a script call.
func (s *Script) command(words []any, byName, readOnly bool) {
	switch {
	case byName && readOnly:
		words[0], words[1] = "evalsha_ro", s.shaWord
	case byName:
		words[0], words[1] = "evalsha", s.shaWord
	case readOnly:
		words[0], words[1] = "eval_ro", s.Source
	default:
		words[0], words[1] = "eval", s.Source
	}
}

// lineCommand returns the Redis command that the script calls on a line.
func (s *Script) lineCommand(line int) string {
	lines := strings.Split(s.Source, "\n")
	if line < 1 || line > len(lines) {
		return ""
	}
	for _, call := range []string{"redis.call('", "redis.pcall('"} {
		if _, after, found := strings.Cut(lines[line-1], call); found {
			name, _, _ := strings.Cut(after, "'")
			return name
		}
	}
	return ""
}

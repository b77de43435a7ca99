package redisstore

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// script is a Lua script and the name the server caches it by.
type script struct {
	source, sha string
	shaWord     any // sha, as a command has it
}

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source)) // the name EVALSHA knows a script by
	sha := hex.EncodeToString(sum[:])
	return &script{source: source, sha: sha, shaWord: sha}
}

// scripts are put together when first needed; a command needs one of them.
type scripts struct {
	one                                      []atomic.Pointer[script] // a request of a kind, by that
	many                                     []atomic.Pointer[script] // many requests of a kind, by that
	special                                  []atomic.Pointer[script] // what is not usual about a request of a kind, by that
	specialAny                               atomic.Pointer[script]
	manyNumbers                              atomic.Pointer[script]
	numbers, complete                        atomic.Pointer[script]
	deleteScript, exportScript, importScript atomic.Pointer[script]
	adjustScript                             atomic.Pointer[script]
	denialScript                             atomic.Pointer[script]
	foreignDelete, foreignImport, foreignSet atomic.Pointer[script]
	setScript, revokeScript, listScript      atomic.Pointer[script] // of overrides
	// noReadOnly is set once the server turns out to be older than Redis 7,
	// which brought EVALSHA_RO. The scripts themselves never write on a peek.
	noReadOnly atomic.Bool
	// noExpireTime is set once PEXPIRETIME, which came with Redis 7, is not to be
	// had.
	noExpireTime atomic.Bool
}

func newScripts() scripts {
	kinds := slices.Max(store.Kinds()) + 1
	slots := func() []atomic.Pointer[script] { return make([]atomic.Pointer[script], kinds) }
	return scripts{one: slots(), many: slots(), special: slots()}
}

func made(slot *atomic.Pointer[script], source func() string) *script {
	if slot.Load() == nil {
		slot.Store(newScript(source())) // twice at worst, to the same
	}
	return slot.Load()
}

// deciding returns the shortest script that usually decides reqs. short says
// that it may leave that to the complete one.
func (s *scripts) deciding(op store.Op, reqs []store.Request) (script *script, short bool) {
	kind := reqs[0].Limit.Kind()
	isNumbers := func(r store.Request) bool { return r.Limit.Kind().RecordSize() > 0 }
	usual := len(reqs) == 1 && !reqs[0].Shadow && (op == store.Take || op == store.Peek)
	switch {
	case usual && isNumbers(reqs[0]):
		return made(&s.one[kind], func() string { return lua.DecideOne(kind) }), true
	case len(reqs) == 1 && !isNumbers(reqs[0]):
		return made(&s.one[kind], func() string { return lua.Decide(kind) }), true
	case !slices.ContainsFunc(reqs, func(r store.Request) bool { return !isNumbers(r) }):
		return made(&s.numbers, lua.DecideNumbers), true
	}
	return s.decidingAll(), false
}

// decidingMany returns the shortest script that decides all groups of m.
func (s *scripts) decidingMany(m *merged) *script {
	kind := m.groups[0][0].reqs[0].Limit.Kind().RecordsOf()
	for _, group := range m.groups {
		if slices.ContainsFunc(group[0].reqs, func(r store.Request) bool { return r.Limit.Kind().RecordsOf() != kind }) {
			return made(&s.manyNumbers, func() string { return lua.DecideMany(lua.Numbers()...) })
		}
	}
	return made(&s.many[kind], func() string { return lua.DecideMany(kind) })
}

func (s *scripts) decidingAll() *script { return made(&s.complete, lua.DecideAny) }
func (s *scripts) toDelete() *script    { return made(&s.deleteScript, lua.Delete) }
func (s *scripts) toAdjust() *script    { return made(&s.adjustScript, lua.Adjust) }
func (s *scripts) toExport() *script    { return made(&s.exportScript, lua.Export) }
func (s *scripts) toImport() *script    { return made(&s.importScript, lua.Import) }
func (s *scripts) toDeleteForeign() *script {
	return made(&s.foreignDelete, lua.ForeignDelete)
}
func (s *scripts) toImportForeign() *script {
	return made(&s.foreignImport, lua.ForeignImport)
}
func (s *scripts) toSetForeign() *script { return made(&s.foreignSet, lua.ForeignSet) }
func (s *scripts) addingDenials() *script {
	return made(&s.denialScript, lua.AddDenials)
}

func (s *scripts) settingOverride() *script  { return made(&s.setScript, lua.SetOverride) }
func (s *scripts) revokingOverride() *script { return made(&s.revokeScript, lua.RevokeOverride) }
func (s *scripts) listingOverrides() *script { return made(&s.listScript, lua.ListOverrides) }

// bySHA returns the script whose name occurs in an error message.
func (s *scripts) bySHA(message string) *script {
	slots := []*atomic.Pointer[script]{&s.manyNumbers, &s.numbers, &s.complete, &s.specialAny,
		&s.deleteScript, &s.adjustScript, &s.exportScript, &s.importScript, &s.denialScript,
		&s.foreignDelete, &s.foreignImport, &s.foreignSet,
		&s.setScript, &s.revokeScript, &s.listScript}
	for i := range s.one {
		slots = append(slots, &s.one[i], &s.many[i], &s.special[i])
	}
	for _, slot := range slots {
		if script := slot.Load(); script != nil && strings.Contains(message, script.sha) {
			return script
		}
	}
	return nil
}

// run calls the script. A call that changes something is sent at most once.
func (s *Store) run(ctx context.Context, changes bool, script *script, keys []string, arguments []any) (*redis.Cmd, error) {
	words := append(make([]any, 2, 3+len(keys)+len(arguments)), len(keys))
	key := ""
	for i := range keys {
		key, words = keys[0], append(words, keys[i])
	}
	q := &queued{call: s.scripts.newCall(ctx, changes, script, key, append(words, arguments...))}
	err := s.sender.ask(ctx, q)
	return &q.call.Cmd, err
}

// newCall returns a call of script by its name. It fills in the first two of its words.
func (s *scripts) newCall(ctx context.Context, changes bool, script *script, key string, words []any) *call {
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

// Send sends a command of the caller's own that changes something, on the store's client.
// Like a take it is sent once. verb is what the
// error, one of the limiter's, calls it; [store.ErrOutcomeUnknown] says that it
// may have been done.
func (s *Store) Send(ctx context.Context, verb string, words ...any) error {
	if err := s.check(); err != nil {
		return err
	}
	c := &call{Cmd: *redis.NewCmd(ctx, words...), once: true}
	if err := c.outcome(s.client.Process(ctx, c)); err != nil {
		return s.explain(err, verb, true, nil)
	}
	return nil
}

// command fills in the first two words of a script call.
func (s *script) command(words []any, byName, readOnly bool) {
	switch {
	case byName && readOnly:
		words[0], words[1] = "evalsha_ro", s.shaWord
	case byName:
		words[0], words[1] = "evalsha", s.shaWord
	case readOnly:
		words[0], words[1] = "eval_ro", s.source
	default:
		words[0], words[1] = "eval", s.source
	}
}

// lineCommand returns the Redis command that the script calls on a line.
func (s *script) lineCommand(line int) string {
	lines := strings.Split(s.source, "\n")
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

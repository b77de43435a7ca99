package lanes

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ask is what a caller asks of a server: a call, or a decision that a lane may merge with others into one script call
// if canMerge says so. The caller sends it by itself, or waits for it while others send it.
type ask struct {
	call *call // what goes by itself; nil for a decision that others may share a call with
	err  error // of such a decision

	// A decision.
	op      store.Op
	attempt uint64 // not zero for a token in several slots
	reqs    []store.Request
	keys    []string     // and that of the token
	words   []any        // the keys as a command has them
	slot    int          // of a Cluster
	script  *lua.Script  // that decides it by itself
	state   atomic.Int32 // as a call's
	same    *ask         // the next that asks the same, in a call for both

	// What came of it.
	granted  bool  // by its turn among those that asked the same
	later    int64 // how many were granted the same after it
	now      store.Instant
	complete bool   // the verdicts are those of decide.lua
	repeated bool   // it repeats what was done before
	verdicts string // for each limit: whether one more fits, and the record
	apart    bool   // it could not be decided together with others; nothing has happened yet

	since time.Time     // when it came
	late  time.Time     // when the store's time for it is over
	end   time.Time     // when its caller leaves at the latest
	done  chan struct{} // has room for the one token that says that the waiting is over

	// The lane's lock guards these.
	before, after *ask      // in the queue
	in            *exchange // nil while it is in the queue
	over          bool      // it has its outcome, or its caller has left
	left          error     // why it has none, if the lane ended the waiting
}

// again is a after it was answered, to be asked once more as c.
func (a *ask) again(c *call) {
	a.call, a.in, a.over = c, nil, false
}

// own returns the call that a is by itself from now on.
func (s *Sender) own(ctx context.Context, a *ask) *call {
	if a.call == nil {
		a.call = s.alone(ctx, a, a.script)
	}
	return a.call
}

// alone returns the call of script for the decision a by itself.
func (s *Sender) alone(ctx context.Context, a *ask, script *lua.Script) *call {
	a.script = script
	words := append(append(make([]any, 2, 5+len(a.keys)), len(a.keys)), a.words...)
	var left []byte
	if leaves(a.reqs) {
		left = appendLeaves(nil, a.reqs)
	}
	words = WithOptions(append(words, PackRequests(a.op, a.attempt, a.reqs)), s.Clock, left)
	return s.newCall(ctx, a.op != store.Peek, a.script, a.keys[0], words)
}

// took takes the answer to a by itself.
func (a *ask) took(c *call) error {
	reply, err := c.Text()
	if err != nil {
		return err
	}
	a.complete = a.script != lua.Of(a.reqs[0].Limit.Kind()).One
	a.now, a.verdicts, err = cutInstant(reply)
	if err == nil && a.complete {
		if a.verdicts == "" || a.verdicts[0] > 1 {
			return redisserver.ErrAnswer
		}
		a.repeated, a.verdicts = a.verdicts[0] == 1, a.verdicts[1:]
	}
	return err
}

// place returns the key that decides which master of a Cluster a goes to.
func (a *ask) place() string {
	if a.call == nil {
		return a.keys[0]
	}
	return a.call.key
}

// outcome returns what came of a, once it is done.
func (a *ask) outcome() error {
	switch {
	case a.left != nil:
		return a.left
	case a.call == nil:
		return a.err
	}
	return a.call.outcome(a.call.Err())
}

// shared marks err, a's, if the whole exchange got no answer, and not only a.
func (a *ask) shared(err error) error {
	if err == nil || a.in == nil || redisserver.IsErrorReply(err, "") {
		return err
	}
	e := known(err)
	e.batch = a.in.number
	return e
}

// withdraw keeps a from being sent, and reports whether it came in time for that.
func (a *ask) withdraw() bool {
	if a.call == nil {
		return withdraw(&a.state)
	}
	return withdraw(&a.call.state)
}

// call is a command that go-redis sends at most once, whatever its client's retries, and that knows whether it was sent
// at all: a failed take that never left is known not to have charged anything.
type call struct {
	redis.Cmd
	once   bool        // never send again
	key    string      // decides which master of a Cluster it goes to
	script *lua.Script // that it calls; nil for another command
	state  atomic.Int32
	build  func() []any // if set, gives the words when they are first written
	words  []any        // what it gave
}

// The states of a call.
const (
	unsent = iota
	sent   // its words were written, or are about to be
	withdrawn
)

// NoRetry implements [redis.Cmder].
func (c *call) NoRetry() bool { return c.once }

// withdrawnWords take the place of a call whose caller has left. They change nothing.
var withdrawnWords = []any{"ping"}

// Args implements [redis.Cmder]; go-redis asks for the arguments to write them.
func (c *call) Args() []any {
	if !c.state.CompareAndSwap(unsent, sent) && c.state.Load() == withdrawn {
		return withdrawnWords
	}
	if c.build == nil {
		return c.Cmd.Args()
	}
	if c.words == nil {
		c.words = c.build()
	}
	return c.words
}

// withdraw keeps what has state from being sent, and reports whether it came in time.
func withdraw(state *atomic.Int32) bool {
	return state.CompareAndSwap(unsent, withdrawn) || state.Load() == withdrawn
}

// outcome marks err if the server may have seen c.
func (c *call) outcome(err error) error {
	if err != nil && c.state.Load() == sent && !redisserver.IsErrorReply(err, "") {
		return MaybeSent(err)
	}
	return err
}

// WatchNodes makes known which calls were sent to a node of a Cluster. Its client also reads
// the arguments of a call to find the node, and may fail before it has one. Call it before
// the client is used, because it sees only nodes that are new.
func WatchNodes(client redis.UniversalClient) {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(nodeHook{}) })
	}
}

// nodeHook is a [redis.Hook] of the nodes of a Cluster.
type nodeHook struct{ redisserver.PassHook }

// ProcessHook implements [redis.Hook]. What comes by here goes to the node, or is
// how the client learns what nodes there are.
func (nodeHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		notYet(cmd)
		err := next(ctx, cmd)
		if err != nil && cmd.FullName() == "cluster slots" {
			return &redisserver.DiscoveryError{Err: err}
		}
		return err
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (nodeHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		notYet(cmds...)
		return next(ctx, cmds)
	}
}

// notYet takes back that calls were sent. Another node they were sent to before has answered that they are not its own.
func notYet(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		if c, ok := cmd.(*call); ok {
			c.state.CompareAndSwap(sent, unsent)
		}
	}
}

// callError is an error of a call, and what is known about that.
type callError struct {
	error
	sent   bool   // it may have reached the server
	gaveUp error  // a store.ErrGaveUp, if the caller's context had ended
	batch  uint64 // the exchange that got no answer at all, with its other callers; 0 for none
	atNode bool   // it came from a node of a Cluster
	node   string // whose address this is, as far as it is known
}

func (e *callError) Unwrap() error { return e.error }

// known returns err as a callError, to note what is known.
func known(err error) *callError {
	if e, is := errors.AsType[*callError](err); is {
		return e
	}
	return &callError{error: err}
}

// MaybeSent marks err, of what may have reached the server.
func MaybeSent(err error) error {
	e := known(err)
	e.sent = true
	return e
}

// Explain turns an error of the client into one of the limiter's, which names the server, the key or the right. verb is
// what was asked, and changes says whether that would have changed anything.
func (s *Sender) Explain(err error, verb string, changes bool, keys []string) error {
	if redisserver.IsErrorReply(err, foreignReply) {
		if foreign, ok := foreignError(err.Error(), keys); ok {
			foreign.Holds = s.Servers.Redact(foreign.Holds)
			return foreign
		}
	}
	var known callError
	if of, is := errors.AsType[*callError](err); is {
		known = *of
	}
	_, discovering := errors.AsType[*redisserver.DiscoveryError](err)
	explained := s.Servers.ExplainCall(err, redisserver.Call{
		Verb: verb, Changes: changes, Keys: keys, Sent: known.sent && !discovering, Address: known.node,
		GaveUp: known.gaveUp,
	})
	if known.batch != 0 {
		explained = &store.BatchError{Batch: known.batch, Err: explained}
	}
	if !known.atNode {
		return explained
	}
	if redisserver.IsErrorReply(err, "CLUSTERDOWN Hash slot not served") { // any node can say so, so it is of no part
		known.node = ""
	}
	return &store.ShardError{Shard: known.node, Err: explained}
}

// Refuse is the error about an answer that no script of the store's gives.
func (s *Sender) Refuse(verb string, changes bool) error {
	return s.Explain(MaybeSent(redisserver.ErrAnswer), verb, changes, nil)
}

// foreignReply begins the scripts' reply that a key holds something else.
const foreignReply = "FOREIGN "

// foreignError reads "FOREIGN <request> <what>".
func foreignError(reply string, keys []string) (*store.ForeignError, bool) {
	number, holds, _ := strings.Cut(strings.TrimPrefix(reply, foreignReply), " ")
	i, err := strconv.Atoi(number)
	if err != nil || i < 1 || i > len(keys) {
		return nil, false
	}
	return &store.ForeignError{StoreKey: keys[i-1], Holds: holds}, true
}

package lanes

import (
	"context"
	"sync/atomic"
	"time"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ask is what a caller asks of a server: a call, or a decision that a lane may merge with others into one script call if
// canMerge says so. The caller sends it by itself, or waits for it while others send it.
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
	a.complete = a.script != lua.DecideOne(a.reqs[0].Limit.Kind())
	a.now, a.verdicts, err = cutInstant(reply)
	if err == nil && a.complete {
		if a.verdicts == "" || a.verdicts[0] > 1 {
			return redisserver.ErrAnswer
		}
		a.repeated, a.verdicts = a.verdicts[0] == 1, a.verdicts[1:]
	}
	return err
}

// place returns the key that decides which node of a Cluster a goes to, empty for any, and
// whether a replica can answer.
func (a *ask) place() (key string, reads bool) {
	if a.call == nil {
		return a.keys[0], a.op == store.Peek
	}
	return a.call.key, a.call.reads
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

package lanes

import (
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/lua"
)

// call is a command that go-redis sends at most once, whatever its client's
// retries, and that knows whether it was sent at all: a failed take that never
// left is known not to have charged anything.
type call struct {
	redis.Cmd
	once   bool        // never send again
	key    string      // decides which node of a Cluster it goes to; "" for any
	reads  bool        // a replica can answer it
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

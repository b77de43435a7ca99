package lanes

import (
	"errors"
	"strconv"
	"strings"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

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

// Explain turns an error of the client into one of the limiter's, which names the server,
// the key or the right. verb is what was asked, and changes says whether that would have
// changed anything.
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
		Verb: verb, Changes: changes, Keys: keys, ScriptCommand: failingCommand,
		Sent: known.sent && !discovering, Address: known.node, GaveUp: known.gaveUp,
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

// failingCommand returns the command that a script has put behind an error that it caught, as in "… (GETRANGE)", or that on the
// line of "script: <sha>, on @user_script:<line>".
func failingCommand(reply string) string {
	if caught, is := strings.CutSuffix(reply, ")"); is {
		if command := caught[strings.LastIndex(caught, " (")+1:]; strings.Trim(command, "(ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
			return strings.TrimPrefix(command, "(")
		}
	}
	_, place, found := strings.Cut(reply, "@user_script:")
	if !found {
		return ""
	}
	digits := place[:len(place)-len(strings.TrimLeft(place, "0123456789"))]
	line, err := strconv.Atoi(digits)
	if err != nil {
		return ""
	}
	for _, script := range lua.All() {
		if strings.Contains(reply, script.SHA().(string)) {
			return lineCommand(script, line)
		}
	}
	return ""
}

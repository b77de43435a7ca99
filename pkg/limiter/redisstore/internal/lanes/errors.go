package lanes

import (
	"errors"
	"strconv"
	"strings"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

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
	var sent sentError
	var discovery *redisserver.DiscoveryError
	call := redisserver.Call{
		Verb: verb, Changes: changes, Keys: keys, ScriptCommand: failingCommand,
		Sent: errors.As(err, &sent) && !errors.As(err, &discovery),
	}
	var node *nodeError
	if errors.As(err, &node) {
		call.Address = node.address
	}
	var caller *callerError
	if errors.As(err, &caller) {
		call.GaveUp = caller.reason
	}
	explained := s.Servers.ExplainCall(err, call)
	var shared *store.BatchError
	if errors.As(err, &shared) && !errors.As(explained, &shared) {
		explained = &store.BatchError{Batch: shared.Batch, Err: explained}
	}
	if node == nil {
		return explained
	}
	return &store.ShardError{Shard: partOf(node), Err: explained}
}

// partOf returns the part of the store that failed. Any node can report that no node has a slot,
// so that error is of no part.
func partOf(err *nodeError) string {
	if redisserver.IsErrorReply(err, "CLUSTERDOWN Hash slot not served") {
		return ""
	}
	return err.address
}

// Refuse is the error about an answer that no script of the store's gives.
func (s *Sender) Refuse(verb string, changes bool) error {
	return s.Explain(sentError{redisserver.ErrAnswer}, verb, changes, nil)
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

package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redact"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// IsReply reports whether err is a reply of the server: an error reply or nil.
func IsReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// IsErrorReply reports whether err is an error reply of the server that begins with prefix.
func IsErrorReply(err error, prefix string) bool {
	if err == nil { // before the variable, which costs an allocation
		return false
	}
	var reply redis.Error
	return errors.As(err, &reply) && reply != redis.Nil && strings.HasPrefix(reply.Error(), prefix)
}

// LacksRight reports whether err says that the user may not run a command or may not use
// a key.
func LacksRight(err error) bool { return IsErrorReply(err, "NOPERM") }

// IsElsewhere reports whether err says that another master has the key.
func IsElsewhere(err error) bool { return IsErrorReply(err, "MOVED") || IsErrorReply(err, "ASK") }

// notNow are the error replies of a server that will recover by itself. It has not run the command.
var notNow = []string{"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "UNKILLABLE",
	"ERR max number of clients reached", "NOREPLICAS"}

// Call describes a failed call.
type Call struct {
	// Verb is its name in errors, such as "take". It may be empty if the call changes nothing.
	Verb string
	// Changes: the call changes something. Sent: it may have reached a server.
	Changes, Sent bool
	// Address is the address of the server, if there are several.
	Address string
	// GaveUp, if not nil, is a [store.ErrGaveUp]: the caller's time was over.
	GaveUp error
	// Keys are its keys. If there are none, it was about all keys under the prefix.
	Keys []string
	// ScriptCommand returns the command at which a script failed, from its reply, or "". It is nil if no script was
	// called.
	ScriptCommand func(reply string) string
}

// Explain converts an error of the client from a call that changes nothing into one of the limiter that names the
// server.
func (s *Servers) Explain(err error) error { return s.ExplainCall(err, Call{}) }

// ExplainCall converts an error of the client into one of the limiter, which names the server and what was missing:
// the key, the right, the password. It is a [store.ErrOutcomeUnknown] if the call may have changed something.
func (s *Servers) ExplainCall(err error, call Call) error {
	if err == nil || errors.Is(err, store.ErrForeign) || errors.Is(err, store.ErrRefused) ||
		errors.Is(err, store.ErrGaveUp) || errors.Is(err, store.ErrClosed) || store.IsAway(err) {
		return err // it is already one
	}
	if call.Address == "" && s.cluster != nil {
		call.Address = nodeIn(err)
	}
	if call.Address = s.secrets.Text(call.Address); call.Address == "" {
		call.Address = s.address
	}
	if !IsErrorReply(err, "") {
		return s.explainNoReply(err, call)
	}
	reply := err.Error()
	for _, prefix := range notNow {
		if strings.HasPrefix(reply, prefix) {
			s.lookForNodes()
			if prefix == "READONLY" {
				return fmt.Errorf("%w: redis at %s is a read-only replica; give the master's address, or wait for a failover to end: %w",
					store.ErrUnavailable, call.Address, s.clean(err))
			}
			return fmt.Errorf("%w: redis at %s does not serve now: %w", store.ErrUnavailable, call.Address, s.clean(err))
		}
	}
	return fmt.Errorf("%w: redis at %s: %s", store.ErrRefused, call.Address, s.explainReply(reply, call))
}

// DiscoveryError says that no known node gave the client of a Cluster the list of nodes. It is about all of them.
type DiscoveryError struct{ Err error }

// Error returns the text of e.Err.
func (e *DiscoveryError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *DiscoveryError) Unwrap() error { return e.Err }

// nodeIn returns the address of the one node that an error is about, from the connection, or "".
func nodeIn(err error) string {
	var all *DiscoveryError
	var operation *net.OpError
	if errors.As(err, &all) || !errors.As(err, &operation) || operation.Addr == nil {
		return ""
	}
	return operation.Addr.String()
}

// explainNoReply is ExplainCall for an error without a reply: the request may have been run if it was sent.
func (s *Servers) explainNoReply(err error, call Call) error {
	s.lookForNodes()
	var dial *net.OpError
	mayHaveRun := call.Sent && !(errors.As(err, &dial) && dial.Op == "dial")
	if call.GaveUp != nil && mayHaveRun && call.Changes {
		return fmt.Errorf("%w: after the %s was sent to redis at %s, which may or may not have happened, %w",
			store.ErrOutcomeUnknown, call.Verb, call.Address, call.GaveUp)
	}
	if call.GaveUp != nil {
		return fmt.Errorf("redis at %s had not answered when %w", call.Address, call.GaveUp)
	}
	if s.isClosed(err) && !(mayHaveRun && call.Changes) {
		return fmt.Errorf("the client of redis at %s is %w", call.Address, store.ErrClosed)
	}
	if wrong := WrongAnswer(err); wrong != nil {
		wrong = s.secrets.Error(wrong) // it quotes the beginning of the answer
		if mayHaveRun && call.Changes {
			return fmt.Errorf("%w: redis at %s: %w, so the %s may or may not have happened",
				store.ErrOutcomeUnknown, call.Address, wrong, call.Verb)
		}
		return fmt.Errorf("%w: redis at %s: %w", store.ErrRefused, call.Address, wrong)
	}
	why := reason(err, s.secrets)
	if mayHaveRun && call.Changes {
		return fmt.Errorf("%w: redis at %s stopped answering after the %s was sent, which may or may not have happened: %w",
			store.ErrOutcomeUnknown, call.Address, call.Verb, why)
	}
	return fmt.Errorf("%w: redis at %s cannot be reached: %w", store.ErrUnavailable, call.Address, why)
}

// lookForNodes makes the client of a Cluster load the slots again, since a replica may have replaced a master. The
// client would do so when it retries, but it does not retry a take.
func (s *Servers) lookForNodes() {
	if s.cluster != nil {
		s.cluster.ReloadState(context.Background())
	}
}

// reason removes the wrapping of go-redis and net from the text of the error, and keeps the error in the chain. It
// removes secrets everywhere, since the server decides what an address or a nonsensical answer contains.
func reason(err error, secrets *redact.Secrets) error {
	clean := secrets.Error(err)
	var operation *net.OpError
	var system syscall.Errno
	switch {
	case errors.Is(err, context.Canceled):
		return &shortError{"the caller gave up", clean}
	case sys.IsTimeout(err):
		return &shortError{"no answer in time", clean}
	case errors.As(err, &operation) && errors.As(operation.Err, &system):
		return &shortError{operation.Err.Error(), clean}
	case errors.As(clean, &operation):
		return &shortError{operation.Err.Error(), clean}
	}
	return clean
}

type shortError struct {
	text string
	error
}

func (e *shortError) Error() string { return e.text }
func (e *shortError) Unwrap() error { return e.error }

// explainReply adds to a refusal what the operator needs: the right or the key.
func (s *Servers) explainReply(reply string, call Call) string {
	switch {
	case strings.Contains(reply, "WRONGPASS"):
		return "wrong user name or password"
	case strings.HasPrefix(reply, "NOAUTH"):
		return "it needs a password and none was given"
	case strings.Contains(reply, "cluster support disabled"):
		return "it is a single server, not a node of a Cluster"
	case strings.HasPrefix(reply, "MOVED "), strings.HasPrefix(reply, "ASK "):
		return "it is a node of a Cluster, and the key is at another; connect to it as a Cluster"
	case strings.HasPrefix(reply, "ERR unknown command"):
		return s.secrets.Answer(strings.TrimPrefix(reply, "ERR ")) +
			"; if this is a Sentinel's port, limitctl doctor names the URL to give"
	case strings.Contains(reply, "nonexistent global variable 'struct'"): // miniredis
		return noStruct
	case strings.Contains(reply, "OOM command not allowed"):
		return "out of memory (maxmemory reached), so nothing can be charged"
	case strings.Contains(reply, "can't access at least one of the keys"),
		strings.Contains(reply, "access one of the keys"),
		strings.Contains(reply, "No permissions to access a key"): // Redis 7.2, Valkey
		return "the user lacks the right to use " + s.keys(call.Keys)
	case commandRefused(reply) != "":
		return lacksCommand(commandRefused(reply))
	case strings.Contains(reply, "can't run this command") && call.ScriptCommand != nil:
		if command := call.ScriptCommand(reply); command != "" {
			return lacksCommand(command)
		}
	}
	return s.secrets.Answer(strings.TrimPrefix(reply, "ERR "))
}

// noStruct is about a program that imitates Redis.
const noStruct = "its Lua has no struct, which limitctl's scripts need; it is no Redis or Valkey (in tests, take a store in memory)"

// commandRefused returns the command, in the form of an ACL, that the user may not run according to a reply, or "".
func commandRefused(reply string) string {
	_, rest, said := strings.Cut(reply, "no permissions to run the '")
	command, _, ended := strings.Cut(rest, "' command")
	refused := strings.HasPrefix(reply, "NOPERM") || strings.Contains(reply, "ACL failure in script: ") // Redis 7.2, Valkey
	if !refused || !said || !ended {
		return ""
	}
	for _, r := range command { // do not repeat a text of another kind of server as a right
		if (r < 'a' || r > 'z') && r != '_' && r != '|' {
			return ""
		}
	}
	return command
}

// lacksCommand returns the text that a user may not run a command, and how to allow it.
func lacksCommand(command string) string {
	return "the user lacks the right to run " + strings.ToUpper(command) + " (ACL SETUSER … +" + strings.ToLower(command) + ")"
}

// keys names the keys of a call.
func (s *Servers) keys(storeKeys []string) string {
	switch {
	case len(storeKeys) == 0 && s.prefix == "":
		return "its keys"
	case len(storeKeys) == 0:
		return "keys under the prefix " + strconv.Quote(s.prefix)
	}
	quoted, beside := make([]string, len(storeKeys)), ""
	for i, key := range storeKeys {
		quoted[i] = strconv.Quote(key)
		if s.prefix != "" && strings.HasPrefix(key, s.prefix+"!") { // a rule for limits alone does not include these keys
			beside = "; keys that begin " + strconv.Quote(s.prefix+"!") + " need a right of their own, which limitctl doctor names"
		}
	}
	if len(quoted) == 1 {
		return "key " + quoted[0] + beside
	}
	return "one of the keys " + strings.Join(quoted, ", ") + beside
}

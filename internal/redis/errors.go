package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/redact"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/lua"
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

// LacksRight reports whether err says that the user may not run a command or may not use a key.
func LacksRight(err error) bool { return IsErrorReply(err, "NOPERM") }

// IsElsewhere reports whether err says that another master has the key.
func IsElsewhere(err error) bool { return IsErrorReply(err, "MOVED") || IsErrorReply(err, "ASK") }

// answerError says what is wrong with an answer.
type answerError struct{ text string }

func (e *answerError) Error() string { return e.text }

// ErrAnswer is the error about an answer that no server gives to the command. A proxy might give it.
var ErrAnswer error = &answerError{"its answer is not one that Redis gives to this"}

// garbled are the beginnings of go-redis' errors about answers that are well-formed but of a wrong type.
var garbled = []string{"redis: can't parse", "redis: got ", "redis: invalid ", "redis: unexpected ",
	"redis: RESP3 map key",
	"redis: the length of the array", "got ", "strconv."}

// WrongAnswer returns what is wrong with an answer, if err is about one that no server gives, or about a panic
// because of it. It returns nil for any other error.
func WrongAnswer(err error) error {
	var answer *answerError
	var panicked *panics.Error
	switch {
	case errors.As(err, &answer):
		return answer
	case errors.As(err, &panicked):
		return panicked
	case errors.Is(err, redis.Nil):
		return ErrAnswer
	}
	for ; err != nil; err = errors.Unwrap(err) {
		if isNetError(err) {
			return nil // it is about the connection
		}
		text := err.Error()
		if slices.ContainsFunc(garbled, func(beginning string) bool { return strings.HasPrefix(text, beginning) }) {
			return ErrAnswer
		}
	}
	return nil
}

// isNetError reports whether err itself, not one that it wraps, is a network error.
func isNetError(err any) bool {
	_, is := err.(net.Error)
	return is
}

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
	for _, reply := range replies {
		if !reply.matches(err.Error()) {
			continue
		}
		if !reply.away {
			return fmt.Errorf("%w: redis at %s: %s", store.ErrRefused, call.Address, reply.text)
		}
		s.lookForNodes()
		return fmt.Errorf("%w: redis at %s %s: %w", store.ErrUnavailable, call.Address, reply.text,
			cleanAnswer(s.secrets.Answer(err.Error())))
	}
	return fmt.Errorf("%w: redis at %s: %s", store.ErrRefused, call.Address, s.explainRefusal(err.Error(), call))
}

// meaning is what error replies mean, with whose text they begin, or that they contain after "…".
type meaning struct {
	reply string
	away  bool // the server will recover by itself, and has not run the command
	text  string
}

func (m *meaning) matches(reply string) bool {
	if part, inside := strings.CutPrefix(m.reply, "…"); inside {
		return strings.Contains(reply, part)
	}
	return strings.HasPrefix(reply, m.reply)
}

// replies have a meaning whatever the call was.
var replies = []meaning{
	{"READONLY", true, "is a read-only replica; give the master's address, or wait for a failover to end"},
	{"LOADING", true, notNow}, {"MASTERDOWN", true, notNow}, {"CLUSTERDOWN", true, notNow}, {"TRYAGAIN", true, notNow},
	{"BUSY", true, notNow}, {"UNKILLABLE", true, notNow}, {"NOREPLICAS", true, notNow},
	{"ERR max number of clients reached", true, notNow},
	{"…WRONGPASS", false, "wrong user name or password"},
	{"NOAUTH", false, "it needs a password and none was given"},
	{"…cluster support disabled", false, "it is a single server, not a node of a Cluster"},
	{"MOVED ", false, elsewhere}, {"ASK ", false, elsewhere},
	{"…nonexistent global variable 'struct'", false, noStruct}, // miniredis
	{"…OOM command not allowed", false, "out of memory (maxmemory reached), so nothing can be charged"},
}

const (
	notNow    = "does not serve now"
	elsewhere = "it is a node of a Cluster, and the key is at another; connect to it as a Cluster"
	noStruct  = "it is no Redis or Valkey: its Lua has no struct, which limitctl's scripts need"
)

// explainRefusal says what the operator needs after a refusal: the right, or the key.
func (s *Servers) explainRefusal(reply string, call Call) string {
	command := commandRefused(reply)
	switch {
	case strings.Contains(reply, "can't access at least one of the keys"),
		strings.Contains(reply, "access one of the keys"),
		strings.Contains(reply, "No permissions to access a key"): // Redis 7.2, Valkey
		return "the user lacks the right to use " + s.keys(call.Keys)
	case command != "":
		return "the user lacks the right to run " + strings.ToUpper(command) +
			" (ACL SETUSER … +" + strings.ToLower(command) + ")"
	}
	text := s.secrets.Answer(strings.TrimPrefix(reply, "ERR "))
	if strings.HasPrefix(reply, "ERR unknown command") {
		text += "; if this is a Sentinel's port, give redis+sentinel://HOST:PORT/MASTER"
	}
	return text
}

// commandRefused returns the command, in the form of an ACL, that the user may not run according to a reply, or "".
func commandRefused(reply string) string {
	if strings.Contains(reply, "can't run this command") {
		return scriptCommand(reply)
	}
	_, rest, said := strings.Cut(reply, "no permissions to run the '")
	command, _, ended := strings.Cut(rest, "' command")
	// Redis 7.2, Valkey
	refused := strings.HasPrefix(reply, "NOPERM") || strings.Contains(reply, "ACL failure in script: ")
	// A text of another kind of server is not repeated as a right.
	if !refused || !said || !ended || strings.Trim(command, "abcdefghijklmnopqrstuvwxyz_|") != "" {
		return ""
	}
	return command
}

// scriptCommand returns the command that a script may not run according to a Redis before 7.2. The reply names the
// script and its line, but for errors of GETRANGE, at which scripts look.
func scriptCommand(reply string) string {
	_, place, _ := strings.Cut(reply, "@user_script:")
	line := 0
	fmt.Sscan(strings.Trim(place, ". "), &line)
	for _, script := range lua.All() {
		lines := strings.Split(script.Source(), "\n")
		if sha, _ := script.SHA().(string); strings.Contains(reply, sha) && line > 0 && line <= len(lines) {
			_, call, _ := strings.Cut(lines[line-1], "call('")
			command, _, _ := strings.Cut(call, "'")
			return strings.ToLower(command)
		}
	}
	return "getrange"
}

// keys names the keys of a call.
func (s *Servers) keys(storeKeys []string) string {
	switch {
	case len(storeKeys) == 0 && s.prefix == "":
		return "its keys"
	case len(storeKeys) == 0:
		return "keys under the prefix " + strconv.Quote(s.prefix)
	}
	quoted := make([]string, len(storeKeys))
	for i, key := range storeKeys {
		quoted[i] = strconv.Quote(key)
	}
	if len(quoted) == 1 {
		return "key " + quoted[0]
	}
	return "one of the keys " + strings.Join(quoted, ", ")
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
	unknown := call.Changes && call.Sent && !(errors.As(err, &dial) && dial.Op == "dial")
	wrong := WrongAnswer(err)
	switch {
	case call.GaveUp != nil && unknown:
		return fmt.Errorf("%w: after the %s was sent to redis at %s, which may or may not have happened, %w",
			store.ErrOutcomeUnknown, call.Verb, call.Address, call.GaveUp)
	case call.GaveUp != nil:
		return fmt.Errorf("redis at %s had not answered when %w", call.Address, call.GaveUp)
	case s.isClosed(err) && !unknown:
		return fmt.Errorf("the client of redis at %s is %w", call.Address, store.ErrClosed)
	case wrong != nil && unknown: // it quotes the beginning of the answer
		return fmt.Errorf("%w: redis at %s: %w, so the %s may or may not have happened",
			store.ErrOutcomeUnknown, call.Address, s.secrets.Error(wrong), call.Verb)
	case wrong != nil:
		return fmt.Errorf("%w: redis at %s: %w", store.ErrRefused, call.Address, s.secrets.Error(wrong))
	case unknown:
		return fmt.Errorf("%w: redis at %s stopped answering after the %s was sent, which may or may not have "+
			"happened: %w",
			store.ErrOutcomeUnknown, call.Address, call.Verb, reason(err, s.secrets))
	}
	return fmt.Errorf("%w: redis at %s cannot be reached: %w", store.ErrUnavailable, call.Address,
		reason(err, s.secrets))
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
	case errors.As(err, &operation) && errors.As(operation.Err, &system), errors.As(clean, &operation):
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

// cleanAnswer is a [redis.Error] without secrets and useless parts, by which a caller finds out what it can do.
type cleanAnswer string

func (a cleanAnswer) Error() string { return string(a) }

// RedisError implements [redis.Error].
func (cleanAnswer) RedisError() {}

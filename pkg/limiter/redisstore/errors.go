package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// addressOf names the server or servers of client in messages.
func addressOf(client redis.UniversalClient) string {
	switch c := client.(type) {
	case *redis.Client:
		return c.Options().Addr
	case *redis.ClusterClient:
		return strings.Join(c.Options().Addrs, ",")
	}
	return "its address"
}

// isServerError reports whether err is an answer of the server that begins so.
func isServerError(err error, prefix string) bool {
	var answer redis.Error
	return err != nil && errors.As(err, &answer) && answer != redis.Nil && strings.HasPrefix(answer.Error(), prefix)
}

// notNow are the answers of a server that will serve again by itself. It has
// done nothing of what was asked.
var notNow = []string{"LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "UNKILLABLE", "ERR max number of clients reached", "NOREPLICAS"}

// Explain turns an error of the store's client, used beside the store to ask what
// changes nothing, into one of the limiter's that names the server.
func (s *Store) Explain(err error) error { return s.translate(err, "question", false, nil) }

// Redact returns a text of the server's, such as a field of INFO, without the secrets
// that the store knows, and cut to what anybody reads.
func (s *Store) Redact(text string) string { return s.secrets.Answer(text) }

// translate turns an error of go-redis or of the server into one of the
// limiter's, naming the server, the key or the right. verb is what was asked, and
// changes says whether that would have changed anything.
func (s *Store) translate(err error, verb string, changes bool, keys []string) error {
	if errors.Is(err, limiter.ErrForeign) || errors.Is(err, limiter.ErrRefused) || limiter.IsAway(err) {
		return err // it is one already
	}
	if !isServerError(err, "") {
		return s.translateAway(err, verb, changes)
	}
	answer := err.Error()
	if foreign, ok := foreignError(answer, keys); ok {
		foreign.Holds = s.secrets.Answer(foreign.Holds)
		return foreign
	}
	for _, prefix := range notNow {
		if strings.HasPrefix(answer, prefix) {
			return fmt.Errorf("%w: redis at %s does not serve now: %w", limiter.ErrUnavailable, s.address, s.clean(err))
		}
	}
	return fmt.Errorf("%w: redis at %s: %s", limiter.ErrRefused, s.address, s.explain(answer, keys))
}

// translateAway is translate for an error that is no answer: whether anything
// happened then depends on whether the request had left.
func (s *Store) translateAway(err error, verb string, changes bool) error {
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		// A replica may have taken the node's place. The client would notice when
		// it retries, which it does not do with a take.
		cluster.ReloadState(context.Background())
	}
	var sent sentError
	var dial *net.OpError
	var discovery *discoveryError
	mayHaveRun := errors.As(err, &sent) && !(errors.As(err, &dial) && dial.Op == "dial") && !errors.As(err, &discovery)
	if wrong := WrongAnswer(err); wrong != nil {
		wrong = s.secrets.Error(wrong) // it repeats how the answer begins
		if mayHaveRun && changes {
			return fmt.Errorf("%w: redis at %s: %w, so the %s may or may not have happened",
				limiter.ErrOutcomeUnknown, s.address, wrong, verb)
		}
		return fmt.Errorf("%w: redis at %s: %w", limiter.ErrRefused, s.address, wrong)
	}
	reason := s.reason(err)
	if mayHaveRun && changes {
		return fmt.Errorf("%w: redis at %s stopped answering after the %s was sent, which may or may not have happened: %w",
			limiter.ErrOutcomeUnknown, s.address, verb, reason)
	}
	return fmt.Errorf("%w: redis at %s cannot be reached: %w", limiter.ErrUnavailable, s.address, reason)
}

// reason strips what go-redis and net wrap around the error and says the same
// again, keeping it in the chain, all of it without secrets: an address, or an answer
// that makes no sense, is the server's.
func (s *Store) reason(err error) error {
	clean := s.secrets.Error(err)
	var operation *net.OpError
	var system syscall.Errno
	var slow net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return &shortError{"the caller gave up", clean}
	case errors.As(err, &slow) && slow.Timeout():
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

// foreignError reads the scripts' "FOREIGN <request> <what>" answer.
func foreignError(answer string, keys []string) (*limiter.ForeignError, bool) {
	rest, ok := strings.CutPrefix(answer, "FOREIGN ")
	if !ok {
		return nil, false
	}
	number, holds, _ := strings.Cut(rest, " ")
	i, err := strconv.Atoi(number)
	if err != nil || i < 1 || i > len(keys) {
		return nil, false
	}
	return &limiter.ForeignError{StoreKey: keys[i-1], Holds: holds}, true
}

// explain adds to a refusal what the operator needs: the right or the key.
func (s *Store) explain(answer string, keys []string) string {
	quoted := make([]string, len(keys))
	for i, key := range keys {
		quoted[i] = strconv.Quote(key)
	}
	names := strings.Join(quoted, ", ")
	if names != "" {
		names = " " + names
	}
	switch {
	case strings.Contains(answer, "WRONGPASS"):
		return "wrong user name or password"
	case strings.HasPrefix(answer, "NOAUTH"):
		return "it needs a password and none was given"
	case strings.Contains(answer, "cluster support disabled"):
		return "it is a single server, not a node of a Cluster"
	case strings.HasPrefix(answer, "MOVED "), strings.HasPrefix(answer, "ASK "):
		return "it is a node of a Cluster, and the key is at another; connect to it as a Cluster"
	case strings.HasPrefix(answer, "READONLY"):
		return "it is a read-only replica; give the master's address"
	case strings.Contains(answer, "OOM command not allowed"):
		return "out of memory (maxmemory reached), so nothing can be charged"
	case strings.Contains(answer, "can't access at least one of the keys"),
		strings.Contains(answer, "access one of the keys"):
		if names == "" {
			names = "s under the prefix " + strconv.Quote(string(s.own))
		}
		return "the user lacks the right to key" + names
	case strings.Contains(answer, "can't run this command"):
		if command := s.scripts.failingCommand(answer); command != "" {
			return "the user lacks the right to run " + command + " (ACL SETUSER … +" + strings.ToLower(command) + ")"
		}
	}
	return s.secrets.Answer(strings.TrimPrefix(answer, "ERR "))
}

// failingCommand finds the command behind "script: <sha>, on @user_script:<line>".
func (s *scripts) failingCommand(answer string) string {
	_, place, found := strings.Cut(answer, "@user_script:")
	if !found {
		return ""
	}
	digits := place[:len(place)-len(strings.TrimLeft(place, "0123456789"))]
	line, err := strconv.Atoi(digits)
	if err != nil {
		return ""
	}
	if script := s.bySHA(answer); script != nil {
		return script.lineCommand(line)
	}
	return ""
}

package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/shell"
)

// verdict is a server's answer about one right.
type verdict uint8

const (
	allowed verdict = iota
	denied
	keyDenied // the command is allowed, but not on these keys
	unknown   // the server has no such command
)

// rightFacts are a server's answers about the rights of a user.
type rightFacts struct {
	user     string
	prefix   string
	rights   []redisserver.Right
	verdicts []verdict // by right
}

// rights finds out what the user may do, by ACL DRYRUN, which runs nothing.
func (e *examination) rights(ctx context.Context, s *server) error {
	user := redisserver.User(e.client)
	facts := rightFacts{user: e.servers.Redact(user), prefix: e.Prefix, rights: redisserver.Rights(e.Prefix)}
	if e.servers.IsCluster() {
		facts.rights = append(facts.rights, redisserver.ClusterRights()...)
	}
	pipe := s.client.Pipeline()
	var answers []*redis.Cmd
	for _, right := range facts.rights {
		answers = append(answers, pipe.Do(ctx, append([]any{"acl", "dryrun", user}, right.Try...)...))
	}
	if _, err := pipe.Exec(ctx); err != nil && !redisserver.IsReply(err) {
		return err
	}
	for _, answer := range answers {
		said, err := answer.Text()
		is := readVerdict(said)
		if err != nil && strings.Contains(err.Error(), "not found") {
			is = unknown
		} else if err != nil {
			e.cannotLook(s, "rights", "acl|dryrun", err)
			return nil
		}
		facts.verdicts = append(facts.verdicts, is)
	}
	e.add(s, judgeRights(facts))
	return nil
}

// readVerdict reads what ACL DRYRUN says of a command that there is.
func readVerdict(answer string) verdict {
	switch {
	case !strings.Contains(answer, "permission"):
		return allowed
	case strings.Contains(answer, "to access"): // in contrast to "to run"
		return keyDenied
	}
	return denied
}

// judgeRights judges a user's rights by the commands of limitctl. Who may run only some of them is taken for a user of
// a smaller role, unless the rights make no sense together.
func judgeRights(r rightFacts) Finding {
	var can, cannot, words []string
	lost, beside := map[string]bool{}, false
	for _, command := range redisserver.Commands() {
		works := true
		for i, right := range r.rights {
			is := r.verdicts[i]
			besideDenied := right.Beside && is == keyDenied
			// The scripts of overrides use the keys beside the limits, whatever the right is for.
			isFor := slices.Contains(right.For, command) || command == "override" && besideDenied
			if !isFor || is == allowed || is == unknown && right.Else+right.Before != "" {
				continue
			}
			only := slices.Contains([]string{"denials", "audit", "override"}, command) // has nothing to do without it
			if only || right.Else == "" || is == keyDenied && !right.Beside {
				works = false
			} else {
				lost[right.Else] = true
			}
			word := "+" + right.Command
			if is == keyDenied {
				word = redisserver.KeyRule(r.prefix, true)
			}
			if besideDenied {
				beside, word, lost["calls with a token are refused"] = true, redisserver.BesideRule(r.prefix, true), true
			}
			if is != unknown && !slices.Contains(words, word) { // no ACL helps against that
				words = append(words, word)
			}
		}
		if works {
			can = append(can, command)
		} else {
			cannot = append(cannot, command)
		}
	}
	losses := strings.Join(slices.Sorted(maps.Keys(lost)), "; ")
	f := fine("rights", "user %s can run %s; not %s", r.user, strings.Join(can, ", "), strings.Join(cannot, ", "))
	switch {
	case len(cannot) == 0 && losses == "":
		return fine("rights", "user %s can run every limitctl command", r.user)
	case len(cannot) == 0:
		f.Status, f.Summary = Warn, fmt.Sprintf("user %s can run every limitctl command, but %s", r.user, losses)
	case len(can) == 0:
		f.Status, f.Summary = Fail, fmt.Sprintf("user %s can run no limitctl command", r.user)
	case !r.isWhole(can):
		f.Status, f.Summary = Fail, f.Summary+", though it has some of the rights"
	case beside:
		f.Status, f.Summary = Warn, f.Summary+"; "+losses
	default:
		return f
	}
	if len(words) > 0 {
		f.Advice = "for all of them: " + shell.SetUser(r.user, words...)
	}
	return f
}

// isWhole reports whether the rights make sense together. A user must be able to check or inspect, and to take, or
// write nothing that a take writes. With half of the rights to write, some takes fail and others do not.
func (r *rightFacts) isWhole(can []string) bool {
	writes := false
	for i, right := range r.rights {
		writes = writes || right.Writes && !right.Beside && slices.Contains(right.For, "consume") &&
			r.verdicts[i] == allowed
	}
	has := func(command string) bool { return slices.Contains(can, command) }
	return has("check") && has("consume") && has("refund") || !writes && (has("check") || has("inspect"))
}

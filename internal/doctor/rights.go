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

// runs reports whether the command is allowed, on any keys.
func (v verdict) runs() bool { return v == allowed || v == keyDenied }

// rightFacts are a server's answers about the rights of a user.
type rightFacts struct {
	user     string
	prefix   string
	rights   []redisserver.Right
	verdicts []verdict // by right
}

// rights finds out what the user may do: by ACL DRYRUN, which runs nothing, or else by calls that change nothing.
func (e *examination) rights(ctx context.Context, s *server) error {
	facts := rightFacts{user: redisserver.User(e.client), prefix: e.Prefix, rights: redisserver.Rights(e.Prefix)}
	if e.servers.IsCluster() {
		facts.rights = append(facts.rights, redisserver.ClusterRights()...)
	}
	user, err := s.client.ACLWhoAmI(ctx).Result()
	if err == nil {
		facts.user = e.servers.Redact(user)
		facts.verdicts, err = ask(ctx, s.client, facts.rights, true, "acl", "dryrun", user)
	}
	if err != nil && !redisserver.IsReply(err) {
		return err
	}
	if err != nil {
		if facts.verdicts, err = ask(ctx, s.client, facts.rights, false); err != nil {
			return err
		}
	}
	e.add(s, judgeRights(facts))
	return nil
}

// ask runs each right's try behind some words: those of ACL DRYRUN if dry, or none. An error is that of the calls, or
// that the server cannot be asked.
func ask(ctx context.Context, client *redis.Client, rights []redisserver.Right, dry bool, words ...any) (
	[]verdict, error) {
	pipe := client.Pipeline()
	answers := make([]*redis.Cmd, len(rights))
	for i, right := range rights {
		answers[i] = pipe.Do(ctx, append(slices.Clone(words), right.Try...)...)
	}
	if _, err := pipe.Exec(ctx); err != nil && !redisserver.IsReply(err) {
		return nil, err
	}
	found := make([]verdict, len(rights))
	for i, answer := range answers {
		said, err := answer.Text()
		switch {
		case answer.Err() == nil && dry && err == nil:
		case answer.Err() == nil:
			said = "" // the answer of the command
		case dry && !strings.Contains(err.Error(), "not found"): // which means the command
			return nil, err
		default:
			said = err.Error()
		}
		found[i] = readVerdict(said)
	}
	return found, nil
}

// readVerdict reads an answer to a command or to ACL DRYRUN. The server checks rights before anything else, so any
// other error means that the user has the right.
func readVerdict(answer string) verdict {
	answer = strings.ToLower(answer)
	switch {
	case strings.Contains(answer, "unknown command"), strings.Contains(answer, "unknown subcommand"),
		strings.HasPrefix(answer, "err command") && strings.Contains(answer, "not found"):
		return unknown
	case !strings.Contains(answer, "permission"):
		return allowed
	case strings.Contains(answer, "to access"): // in contrast to "to run"
		return keyDenied
	}
	return denied
}

// of returns a right and the verdict about it, or those of the command that replaces it on an older server.
func (r *rightFacts) of(i int) (redisserver.Right, verdict) {
	right, is := r.rights[i], r.verdicts[i]
	if is == unknown && right.Before != "" {
		i = slices.IndexFunc(r.rights, func(other redisserver.Right) bool { return other.Command == right.Before })
		right, is = r.rights[i], r.verdicts[i]
	}
	return right, is
}

// role returns the role with the fewest rights that may write everything that the user may, and whether the user has
// all of its rights.
func (r *rightFacts) role() (role redisserver.Role, complete bool) {
	roles := redisserver.Roles()
	if !slices.ContainsFunc(r.verdicts, verdict.runs) { // a user without any rights has no role yet
		return roles[len(roles)-1], false
	}
	for _, role = range roles {
		fits, complete := true, true
		for i, right := range r.rights {
			needs := role.Needs(right)
			fits = fits && (needs || !right.Writes || !r.verdicts[i].runs())
			has := r.verdicts[i] == allowed || r.verdicts[i] == unknown && (right.Before != "" || right.Else != "")
			complete = complete && (has || !needs)
		}
		if fits {
			return role, complete
		}
	}
	return role, false
}

// rightSum is what a user's rights come to.
type rightSum struct {
	can, cannot []string        // limitctl commands
	losses      map[string]bool // what commands do without
	absent      map[string]bool // commands that the server does not have
	// keys and beside: the role needs the keys under the prefix, or those beside them, and these words.
	keys, beside bool
	words        []string
}

func (r *rightFacts) sum(role *redisserver.Role) *rightSum {
	s := &rightSum{losses: map[string]bool{}, absent: map[string]bool{}}
	for _, command := range redisserver.Commands() {
		works, isOptional, lacks := true, true, false
		for i := range r.rights {
			right, is := r.of(i)
			isFor := slices.Contains(right.For, command)
			isOptional = isOptional && !(isFor && right.Else == "")
			// The scripts of overrides use the keys beside the limits, whatever the right is for.
			ofOverride := command == "override" && right.Beside && is == keyDenied
			if !isFor && !ofOverride || is == allowed || is == unknown && right.Else != "" {
				continue
			}
			fails := command == "denials" || ofOverride || right.Else == "" || is == keyDenied && !right.Beside
			works, lacks = works && !fails, true
			s.add(slices.Contains(role.For, command), fails, right, is)
		}
		switch {
		case isOptional && lacks: // audit, which also shows the file of this machine
		case works:
			s.can = append(s.can, command)
		default:
			s.cannot = append(s.cannot, command)
		}
	}
	return s
}

// add adds a right that a command lacks, without which it fails or does less.
func (s *rightSum) add(ofRole, fails bool, right redisserver.Right, is verdict) {
	word := "+" + right.Command
	switch {
	case is == keyDenied && right.Beside && ofRole:
		s.beside = true
		s.losses["calls with a token are refused"], s.losses[right.Else] = true, true
		return
	case is == keyDenied:
		s.keys = s.keys || ofRole && !right.Beside
		return
	case is == unknown: // no ACL helps against that
		s.absent[words(right.Command)] = true
	case ofRole && !slices.Contains(s.words, word):
		s.words = append(s.words, word)
	}
	if !fails {
		s.losses[right.Else] = true
	}
}

func judgeRights(r rightFacts) Finding {
	role, complete := r.role()
	s := r.sum(&role)
	losses := strings.Join(sortedKeys(s.losses), "; ")
	f := fine("rights", "user %s can run every limitctl command", r.user)
	switch {
	case len(s.cannot) == 0 && losses == "":
		return f
	case len(s.cannot) == 0:
		f.Status, f.Summary = Warn, f.Summary+", but "+losses
	case len(s.can) == 0:
		f = fail("rights", "user "+r.user+" can run no limitctl command", "")
	default:
		f.Summary = fmt.Sprintf("user %s can run %s; not %s", r.user, strings.Join(s.can, ", "),
			strings.Join(s.cannot, ", "))
		switch {
		case !r.isWhole(s.can):
			f.Status, f.Summary = Fail, f.Summary+", though it has some of the rights"
		case complete: // and such a user needs no more
			f.Summary += "; it has all rights of a " + role.Name
			return f
		case s.beside:
			f.Status, f.Summary = Warn, f.Summary+"; "+losses
		}
	}
	if len(s.absent) > 0 {
		f.Summary += "; the server does not know " + strings.Join(sortedKeys(s.absent), ", ")
	}
	if s.beside {
		s.words = slices.Insert(s.words, 0, redisserver.BesideRule(r.prefix, role.Writes))
	}
	if s.keys {
		s.words = slices.Insert(s.words, 0, redisserver.KeyRule(r.prefix, role.Writes))
	}
	if len(s.words) > 0 {
		what := "for all of them: "
		if role.Name != "operator" {
			what = "for all that a " + role.Name + " can: "
		}
		f.Advice = what + shell.SetUser(r.user, s.words...)
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

func sortedKeys(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

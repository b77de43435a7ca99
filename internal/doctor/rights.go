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
	tried    bool      // by calls, since the server does not tell
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
		facts.verdicts, err = dryRun(ctx, s.client, user, facts.rights)
	}
	if err != nil && !redisserver.IsReply(err) {
		return err
	}
	if err != nil {
		facts.tried = true
		if facts.verdicts, err = tryOut(ctx, s.client, facts.rights); err != nil {
			return err
		}
	}
	e.add(s, judgeRights(facts))
	return nil
}

// dryRun asks about each right. The error is that of the calls.
func dryRun(ctx context.Context, client *redis.Client, user string, rights []redisserver.Right) ([]verdict, error) {
	pipe := client.Pipeline()
	answers := make([]*redis.Cmd, len(rights))
	for i, right := range rights {
		answers[i] = pipe.Do(ctx, append([]any{"acl", "dryrun", user}, right.Try...)...)
	}
	if _, err := pipe.Exec(ctx); err != nil && !redisserver.IsReply(err) {
		return nil, err
	}
	found := make([]verdict, len(rights))
	for i, answer := range answers {
		said, err := answer.Text()
		if err != nil {
			if said = err.Error(); !strings.Contains(said, "not found") { // it means the command
				return nil, err
			}
		}
		found[i] = readVerdict(said)
	}
	return found, nil
}

// tryOut runs each command in a form that changes nothing.
func tryOut(ctx context.Context, client *redis.Client, rights []redisserver.Right) ([]verdict, error) {
	pipe := client.Pipeline()
	answers := make([]*redis.Cmd, len(rights))
	for i, right := range rights {
		answers[i] = pipe.Do(ctx, right.Try...)
	}
	if _, err := pipe.Exec(ctx); err != nil && !redisserver.IsReply(err) {
		return nil, err
	}
	found := make([]verdict, len(rights))
	for i, answer := range answers {
		if err := answer.Err(); err != nil {
			found[i] = readVerdict(err.Error())
		}
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

// missing returns what the user lacks for one limitctl command: the commands without which it fails, those without
// which it does less, and whether the keys, or those beside them, are missing.
func (r *rightFacts) missing(command string) (fails, worse []redisserver.Right, keys, beside bool) {
	for i, right := range r.rights {
		if !slices.Contains(right.For, command) {
			continue
		}
		is := r.verdicts[i]
		if is == unknown && right.Before != "" {
			before := slices.IndexFunc(r.rights, func(other redisserver.Right) bool { return other.Command == right.Before })
			right, is = r.rights[before], r.verdicts[before]
		}
		switch {
		case is == allowed, is == unknown && right.Else != "":
		case is == keyDenied && right.Beside:
			beside = true
		case is == keyDenied:
			keys = true
		case right.Else != "" && command != "denials": // which has nothing else to show
			worse = append(worse, right)
		default:
			fails = append(fails, right)
		}
	}
	if command == "override" { // its scripts use keys beside the limits
		beside = beside || slices.ContainsFunc(r.rights, r.besideDenied)
	}
	return fails, worse, keys, beside
}

// besideDenied reports whether the user may not use the keys of a right that are beside the limits.
func (r *rightFacts) besideDenied(right redisserver.Right) bool {
	return right.Beside && r.verdictOf(right) == keyDenied
}

func (r *rightFacts) verdictOf(right redisserver.Right) verdict {
	return r.verdicts[slices.IndexFunc(r.rights, func(other redisserver.Right) bool { return other.Command == right.Command })]
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

func judgeRights(r rightFacts) Finding {
	name := "user " + r.user
	how := "asked"
	if r.tried {
		how = "tried"
	}
	var can, cannot []string
	role, complete := r.role()
	add := rightWords{writes: role.Writes}
	lacking, losses, absent := map[string][]string{}, map[string]bool{}, map[string]bool{}
	for _, command := range redisserver.Commands() {
		fails, worse, keys, beside := r.missing(command)
		switch {
		case !r.needsRights(command) && (len(worse) > 0 || beside): // audit also shows the file of this machine
		case len(fails) == 0 && !keys && (!beside || !slices.Contains([]string{"denials", "override"}, command)):
			can = append(can, command)
		default:
			cannot = append(cannot, command)
		}
		ofRole := slices.Contains(role.For, command)
		add.keys = add.keys || keys && ofRole
		if beside && ofRole && !add.beside {
			add.beside = true
			losses["calls with a token are refused"] = true
			losses[r.rights[slices.IndexFunc(r.rights, func(right redisserver.Right) bool { return right.Beside })].Else] = true
		}
		for _, right := range append(fails, worse...) {
			lacking[command] = append(lacking[command], "+"+right.Command)
			switch {
			case r.verdictOf(right) == unknown: // no ACL helps against that
				absent[strings.ToUpper(strings.ReplaceAll(right.Command, "|", " "))] = true
			case ofRole:
				add.command(right.Command)
			}
		}
		for _, right := range worse {
			losses[right.Else] = true
		}
	}
	f := Finding{Check: "rights", Status: OK, Data: map[string]any{"user": r.user, "how": how, "can": can, "cannot": cannot,
		"missing": lacking}}
	if can == nil {
		f.Data["can"] = []string{}
	}
	switch {
	case len(cannot) == 0 && len(losses) == 0:
		f.Summary = name + " can run every limitctl command"
		return f
	case len(cannot) == 0:
		f.Status = Warn
		f.Summary = name + " can run every limitctl command, but " + strings.Join(sortedKeys(losses), "; ")
	case len(can) == 0:
		f.Status = Fail
		f.Summary = name + " can run no limitctl command"
	default:
		f.Summary = fmt.Sprintf("%s can run %s; not %s", name, strings.Join(can, ", "), strings.Join(cannot, ", "))
		switch {
		case !r.isWhole(can):
			f.Status = Fail
			f.Summary += ", though it has some of the rights"
		case complete: // and such a user needs no more
			f.Summary += "; it has all rights of a " + role.Name
			return f
		case add.beside:
			f.Status = Warn
			f.Summary += "; " + strings.Join(sortedKeys(losses), "; ")
		}
	}
	if len(absent) > 0 {
		f.Summary += "; the server does not know " + strings.Join(sortedKeys(absent), ", ")
	}
	what := "for all of them: "
	if role.Name != "operator" {
		what = "for all that a " + role.Name + " can: "
	}
	if words := add.words(r.prefix); len(words) > 0 {
		f.Advice = what + shell.SetUser(r.user, words...)
	}
	return f
}

// needsRights reports whether a command does nothing without some of the rights.
func (r *rightFacts) needsRights(command string) bool {
	return slices.ContainsFunc(r.rights, func(right redisserver.Right) bool {
		return right.Else == "" && slices.Contains(right.For, command)
	})
}

// isWhole reports whether the rights make sense together. A user must be able to check or inspect, and to take, or write nothing that
// a take writes. With half of the rights to write, some takes fail and others do not.
func (r *rightFacts) isWhole(can []string) bool {
	writes := false
	for i, right := range r.rights {
		writes = writes || right.Writes && !right.Beside && slices.Contains(right.For, "consume") && r.verdicts[i] == allowed
	}
	has := func(command string) bool { return slices.Contains(can, command) }
	return has("check") && has("consume") && has("refund") || !writes && (has("check") || has("inspect"))
}

// rightWords are the words to add to an ACL.
type rightWords struct {
	keys     bool
	beside   bool // the keys beside those
	writes   bool
	commands []string
}

func (w *rightWords) command(name string) {
	if !slices.Contains(w.commands, name) {
		w.commands = append(w.commands, name)
	}
}

func (w *rightWords) words(prefix string) []string {
	var words []string
	if w.keys {
		words = append(words, redisserver.KeyRule(prefix, w.writes))
	}
	if w.beside {
		words = append(words, redisserver.BesideRule(prefix, w.writes))
	}
	for _, command := range w.commands {
		words = append(words, "+"+command)
	}
	return words
}

func sortedKeys(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

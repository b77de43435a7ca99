package cmd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/progress"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// selectionHelp explains the arguments of commands that take a selection.
const selectionHelp = `PATTERN is a glob over subjects: * any characters, ? one, [abc] one of a set, \
takes the next literally. Without any of these it is exactly that subject, all
its limits; with --exact it is, whatever it holds.

With --policy the arguments are attributes instead, and select every key of the
policy that has them, whatever comes after. Keys whose names follow from the
configuration are reached directly, without a scan. With a glob for POLICY, such
as 'api*', all keys are looked at, those of an earlier configuration among them.`

// selection is which keys an operator means.
type selection struct {
	exact    bool
	policy   string
	limit    string
	denied   bool
	minUsed  string
	noTTL    bool
	foreign  bool
	scanRate int

	query    limiter.Query
	minShare float64
	text     string // the selection in words, for messages and the audit
}

func (s *selection) addFlags(cmd *cobra.Command, global *globalOptions) {
	flags := cmd.Flags()
	flags.BoolVar(&s.exact, "exact", false, "take PATTERN as a subject, whatever glob characters it holds")
	flags.StringVar(&s.policy, "policy", "", "only keys of the `POLICY` (a glob), with the attributes given as arguments")
	flags.StringVar(&s.limit, "limit-name", "", "only keys of the limit of that `NAME` (a glob)")
	flags.BoolVar(&s.denied, "denied", false, "only keys with nothing left now")
	flags.StringVar(&s.minUsed, "min-used", "", "only keys with at least that `SHARE` of their limit used, such as 80%")
	flags.BoolVar(&s.noTTL, "no-ttl", false, "only keys that never expire, which is somebody's doing")
	flags.BoolVar(&s.foreign, "foreign", false, "only values that limitctl did not write")
	cmd.RegisterFlagCompletionFunc("policy", completer{global}.policies)
	cmd.RegisterFlagCompletionFunc("limit-name", completer{global}.limitNames)
	cmd.RegisterFlagCompletionFunc("min-used", cobra.NoFileCompletions)
	flags.IntVar(&s.scanRate, "rate-limit-scan", 0, "look at no more than `N` keys a second, to spare the server (default as fast as it goes)")
}

// arguments is the check of a command's arguments.
func (s *selection) arguments(cmd *cobra.Command, args []string) error {
	// An empty one is a variable of a script that is not set. To go on without would
	// select more than is meant.
	for _, flag := range []string{"policy", "limit-name", "min-used"} {
		if cmd.Flags().Changed(flag) && cmd.Flags().Lookup(flag).Value.String() == "" {
			return usagef("--%s is empty, and would select by nothing; give it a value or leave it out", flag)
		}
	}
	switch {
	case s.policy != "":
		return nil
	case len(args) == 0:
		return usagef("no PATTERN given; write a subject or a glob, or '*' for all, as in `%s '*'`", cmd.CommandPath())
	case len(args) > 1:
		return usagef("%s given, and %s takes one PATTERN; quote it, lest the shell expands it", several(args), cmd.Name())
	}
	return nil
}

// knownPolicies returns the policies that a selection by policy can make use of.
func (g *globalOptions) knownPolicies(s *selection) ([]*policy.Policy, error) {
	if s.policy == "" {
		return nil, nil
	}
	c, err := g.config()
	if err != nil {
		return nil, err
	}
	// It may be one of an earlier configuration. If it is a slip, finding nothing would
	// look like good news.
	if name, err := limiter.ParsePattern(s.policy); err == nil && len(c.Policies) > 0 && !g.quiet {
		if exact, is := name.Exact(); is {
			if _, err := c.Policy(exact); err != nil {
				fmt.Fprintf(g.env.Err, "limitctl: warning: %s\n", message(err))
			}
		}
	}
	return c.Policies, nil
}

// parse makes the query of the arguments and flags. The known policies say which
// keys there are.
func (s *selection) parse(args []string, known []*policy.Policy) (err error) {
	if s.policy == "" {
		err = s.parsePattern(args[0])
	} else {
		err = s.parsePolicy(args, known)
	}
	if err != nil {
		return err
	}
	if s.minUsed != "" {
		if s.minShare, err = parseMinUsed(s.minUsed); err != nil {
			return err
		}
	}
	if s.foreign && (s.denied || s.minUsed != "" || s.noTTL) {
		return usagef("--foreign goes with none of --denied, --min-used and --no-ttl: a foreign value is no limit")
	}
	if s.scanRate < 0 {
		return usagef("--rate-limit-scan %d is negative; give keys per second", s.scanRate)
	}
	s.query.KeysPerSecond = s.scanRate
	for _, flag := range []struct {
		set  bool
		text string
	}{{s.denied, "--denied"}, {s.minUsed != "", shell.Command("--min-used", s.minUsed)}, {s.noTTL, "--no-ttl"}, {s.foreign, "--foreign"}} {
		if flag.set {
			s.text += " " + flag.text
		}
	}
	return nil
}

func (s *selection) parsePattern(text string) (err error) {
	if s.exact {
		s.query.Subjects, err = limiter.ExactPattern(text)
	} else {
		s.query.Subjects, err = limiter.ParsePattern(text)
	}
	if err != nil {
		return err
	}
	s.text = shell.Command(text)
	if s.exact {
		s.text = "--exact " + s.text
	}
	if s.limit != "" {
		name, err := limiter.ParsePattern(s.limit)
		if err != nil {
			return usagef("--limit-name: %s", err)
		}
		s.text += " " + shell.Command("--limit-name", s.limit)
		subject, oneSubject := s.query.Subjects.Exact()
		whole, oneName := name.Exact()
		key := limiter.Key{Subject: subject, Name: whole}
		if _, isPolicys := policy.ParseKey(key); oneSubject && oneName && !isPolicys && strings.Contains(whole, "/") {
			s.query.Keys = []limiter.Key{key} // the name of a limit without one of its own, whole
			return nil
		}
		s.query.Match = func(key limiter.Key) bool {
			// A policy's limit can be called by its own name or with its policy's, as
			// --summary shows it, whatever hash_by has put behind it.
			parts, isPolicys := policy.ParseKey(key)
			return name.Match(key.Name) || isPolicys && (name.Match(parts.Limit) || name.Match(limitName(key)))
		}
	}
	return nil
}

func (s *selection) parsePolicy(args []string, known []*policy.Policy) error {
	if s.exact {
		return usagef("--exact is about a PATTERN, and with --policy there is none; attributes are always taken as they are")
	}
	attributes, err := policy.ParseAttributes(args)
	if err != nil {
		return err
	}
	selected := policy.Selection{Attributes: attributes}
	if selected.Policies, err = limiter.ParsePattern(s.policy); err != nil {
		return usagef("--policy: %s", err)
	}
	s.text = shell.Command("--policy", s.policy)
	if s.limit != "" {
		if selected.Limits, err = limiter.ParsePattern(s.limit); err != nil {
			return usagef("--limit-name: %s", err)
		}
		s.text += " " + shell.Command("--limit-name", s.limit)
	}
	for _, name := range attributes.Names() {
		s.text += " " + shell.Command(name+"="+attributes[name])
	}
	s.query, err = selected.Query(known)
	return err
}

// parseMinUsed reads a share of the limit such as "80%" or "0.8".
func parseMinUsed(text string) (float64, error) {
	share, percent, err := parseShare(text)
	if err != nil || share < 0 || share > 1000 {
		return 0, usagef("--min-used %q is no share; write it like 80%% or 0.8", text)
	}
	if share > 1 && !percent { // 80 for 80% would find nothing, and look like good news
		return 0, usagef("--min-used %s would be %s times the limit; write it like 80%% or 0.8", text, strings.TrimSpace(text))
	}
	return share, nil
}

// parseShare reads a number or a percentage, and tells which it was.
func parseShare(text string) (share float64, percent bool, err error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	share, err = strconv.ParseFloat(number, 64)
	if percent {
		share /= 100
	}
	if math.IsNaN(share) {
		err = strconv.ErrSyntax
	}
	return share, percent, err
}

// keeps reports whether the state of a key is one that is selected.
func (s *selection) keeps(e *limiter.Entry) bool {
	return (!s.denied || e.Decision.Remaining == 0) &&
		(s.minUsed == "" || share(e) >= s.minShare) &&
		(!s.noTTL || e.TTL < 0)
}

// share is how much of its limit an entry has used: 1 is all.
func share(e *limiter.Entry) float64 {
	return float64(e.Decision.Used) / float64(e.Limit.Capacity())
}

// foreignKeys are the foreign values that a command met: how many, and the first
// of their errors.
type foreignKeys struct {
	count int
	first []error
}

func (f *foreignKeys) add(err error) {
	f.count++
	if len(f.first) < 5 {
		f.first = append(f.first, err)
	}
}

// take adds the foreign values among joined errors, and returns the others.
func (f *foreignKeys) take(err error) error {
	if !errors.Is(err, limiter.ErrForeign) {
		return err // whole: not only joining makes an error of several
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		f.add(err)
		return nil
	}
	var others []error
	for _, err := range joined.Unwrap() {
		others = append(others, f.take(err))
	}
	return errors.Join(others...)
}

// merge adds what others met, too: a value may have been met twice, by the scan and
// by the change, and is told once.
func (f *foreignKeys) merge(later *foreignKeys) {
	for _, err := range later.first {
		if !slices.ContainsFunc(f.first, func(e error) bool { return e.Error() == err.Error() }) {
			f.add(err)
		}
	}
	f.count += later.count - len(later.first) // those whose errors were not kept
}

// err makes of the foreign values an error: their own if there was nothing else,
// and partly done otherwise.
func (f *foreignKeys) err(others bool) error {
	if f.count == 0 {
		return nil
	}
	err := errors.Join(f.first...)
	if more := f.count - len(f.first); more > 0 {
		err = fmt.Errorf("%w\nand %d more foreign values", err, more)
	}
	if others {
		return &partlyError{err}
	}
	return err
}

// found is what a scan comes to.
type found struct {
	matched       int64 // keys that were selected, foreign ones aside
	looked, total int64
	foreign       foreignKeys
}

// manyKeys is from how many keys on a scan is thrifty with memory.
const manyKeys = 1_000_000

// scan calls do with each selected entry; a foreign value comes with its error. An
// error of do ends the scan. Somebody who looks is shown how far it has come.
func (g *globalOptions) scan(ctx context.Context, store connect.Store, s *selection, do func(*limiter.Entry, error) error) (f found, err error) {
	bar := g.progress("scanning", "matched")
	defer bar.Close()
	query := s.query
	query.Progress = func(looked, total int64) {
		f.looked, f.total = looked, total
		bar.Set(looked, total, f.matched)
	}
	for entry, err := range store.Scan(ctx, query) {
		switch {
		case errors.Is(err, limiter.ErrForeign):
			f.foreign.add(err)
			if s.foreign {
				err = do(&entry, err)
			} else {
				err = nil
			}
		case err == nil && !s.foreign && s.keeps(&entry):
			// What a scan of a Cluster remembers of so many keys is large and stays,
			// and must not be doubled by what can be thrown away.
			if f.matched++; f.matched == manyKeys && g.env.Getenv("GOGC") == "" {
				defer debug.SetGCPercent(debug.SetGCPercent(15))
			}
			err = do(&entry, nil)
		}
		if err != nil {
			return f, err
		}
	}
	return f, nil
}

// progress returns a bar where somebody can see it, that nothing else disturbs.
func (g *globalOptions) progress(title, noun string) *progress.Bar {
	if !g.env.ErrIsTerminal || g.quiet {
		return nil
	}
	return progress.New(g.env.rawErr, title, noun)
}

// scanError says of an error of a scan how far it had come.
func scanError(f *found, err error) error {
	if err == nil || f.looked == 0 {
		return err
	}
	return &progressError{err, fmt.Sprintf("%d of about %d keys looked at, %d matched", f.looked, f.total, f.matched)}
}

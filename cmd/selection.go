package cmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// selectionHelp explains the arguments of commands that take a selection.
const selectionHelp = `PATTERN is a glob over subjects: * any characters, ? one, [abc] one of a set, \
takes the next literally. A network at its end, as in ip:203.0.113.0/24, matches
subjects that end in an address or a network inside it. Without any of these it
is exactly that subject, all its limits. With --exact it always is.

With --policy the arguments are attributes instead. They select every key of the
policy that has them; its other attributes may be anything. Keys whose names
follow from the configuration are reached directly, without a scan. With a glob
for POLICY, such as 'api*', all keys are looked at, also those of an earlier
configuration.

With --layout the keys are those that other limiters wrote to a Redis. PATTERN
is then a glob over subjects, as the limiter's keys have them, or over whole
keys of the store. Without --layout the context in use says which. --layout
limitctl asks for limitctl's own. Keys that are not certainly of a limiter are
told and left out, unless PATTERN or the configuration names them.`

// selectionOptions say which keys a command is for.
type selectionOptions struct {
	layoutOptions
	exact    bool
	policy   string
	name     string // of the limit
	atLimit  bool
	minUsed  string
	noTTL    bool
	stuck    bool
	foreign  bool
	scanRate int
	// judgesPolicy: the command itself says what it makes of a --policy that is not configured.
	judgesPolicy bool
}

func (s *selectionOptions) addSelectionFlags(cmd *cobra.Command, global *globalOptions) {
	s.addLayoutFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&s.exact, "exact", false, "take PATTERN as a subject, even if it holds glob characters")
	flags.StringVar(&s.policy, "policy", "", "only keys of the `POLICY` (a glob), with the attributes given as arguments")
	flags.StringVar(&s.name, "limit-name", "", "only keys of the limit of that `NAME` (a glob)")
	flags.BoolVar(&s.atLimit, "at-limit", false, "only keys with nothing left now")
	flags.BoolVar(&s.atLimit, "denied", false, "the old name of --at-limit")
	flags.MarkHidden("denied")
	flags.StringVar(&s.minUsed, "min-used", "", "only keys with at least that `SHARE` of their limit used, such as 80%")
	flags.BoolVar(&s.noTTL, "no-ttl", false, "only keys that never expire, which limitctl does not write")
	flags.BoolVar(&s.stuck, "stuck", false, "with --layout, only keys with a defect that does not pass, and that deleting them puts right")
	flags.BoolVar(&s.foreign, "foreign", false, "only values that limitctl did not write")
	cmd.RegisterFlagCompletionFunc("policy", completer{global}.policies)
	cmd.RegisterFlagCompletionFunc("limit-name", completer{global}.limitNames)
	cmd.RegisterFlagCompletionFunc("min-used", cobra.NoFileCompletions)
	flags.IntVar(&s.scanRate, "rate-limit-scan", 0,
		"look at no more than `N` keys a second, to spare the server (default as fast as it goes)")
}

// arguments is the check of a command's arguments.
func (s *selectionOptions) arguments(cmd *cobra.Command, args []string) error {
	// An empty value comes from a script's variable that is not set. Without it more would
	// be selected than is meant.
	for _, flag := range []string{"policy", "limit-name", "min-used"} {
		if cmd.Flags().Changed(flag) && cmd.Flags().Lookup(flag).Value.String() == "" {
			return usagef("--%s is empty; give it a value or leave it out", flag)
		}
	}
	switch {
	case s.policy != "":
		return nil
	case len(args) == 0:
		return usagef("no PATTERN given; write a subject or a glob, or '*' for all, as in `%s '*'`", cmd.CommandPath())
	case len(args) > 1:
		return usagef("%s given, and %s takes one PATTERN; quote it, so that the shell does not expand it", several(args), cmd.Name())
	}
	return nil
}

// selected turns the flags and arguments into the keys that they select.
func (s *selectionOptions) selected(g *globalOptions, args []string) (selection operation.Selection, err error) {
	if err := s.use(g); err != nil {
		return selection, err
	}
	if s.policy == "" {
		selection, err = s.byPattern(args[0], g.layouts != nil)
	} else {
		selection, err = s.byPolicy(g, args)
	}
	if err != nil {
		return selection, err
	}
	minShare := 0.0
	if s.minUsed != "" {
		if minShare, err = parseMinUsed(s.minUsed); err != nil {
			return selection, err
		}
	}
	if s.foreign && (s.atLimit || s.minUsed != "" || s.noTTL || s.stuck) {
		return selection, usagef("--foreign cannot be given with --at-limit, --min-used, --no-ttl or --stuck: a foreign value is not a limit")
	}
	if s.scanRate < 0 {
		return selection, usagef("--rate-limit-scan %d is negative; give keys per second", s.scanRate)
	}
	if s.stuck && g.layouts == nil {
		return selection, usagef("--stuck finds defects of other limiters' keys; add --layout NAME, or --layout auto")
	}
	selection.Text += s.layoutOptions.text(g)
	selection.Query.KeysPerSecond = s.scanRate
	selection.Foreign, selection.Query.Foreign = s.foreign, s.foreign
	selection.Keep = s.keep(minShare)
	for _, flag := range []struct {
		set  bool
		text string
	}{{s.atLimit, "--at-limit"}, {s.minUsed != "", shell.Command("--min-used", s.minUsed)}, {s.noTTL, "--no-ttl"}, {s.stuck, "--stuck"},
		{s.foreign, "--foreign"}} {
		if flag.set {
			selection.Text += " " + flag.text
		}
	}
	return selection, nil
}

// keep says which states of keys the flags select; nil for all.
func (s *selectionOptions) keep(minShare float64) func(*admin.Entry) bool {
	atLimit, noTTL, minUsed, stuck := s.atLimit, s.noTTL, s.minUsed != "", s.stuck
	if !atLimit && !noTTL && !minUsed && !stuck {
		return nil
	}
	return func(e *admin.Entry) bool {
		share, known := e.Share()
		return (!atLimit || e.AtLimit()) && (!minUsed || known && share >= minShare) && (!noTTL || e.TTL < 0) && (!stuck || e.IsStuck())
	}
}

// byPattern selects by a pattern of subjects, or with layouts also of store keys.
func (s *selectionOptions) byPattern(text string, layouts bool) (selection operation.Selection, err error) {
	query := &selection.Query
	parse, parseName := parseSubjects, store.ParsePattern
	if layouts {
		parse, parseName = parseStoreKeys, store.ParseStoreKeyPattern
	}
	if query.Subjects, err = parse(text, s.exact); err != nil {
		return selection, err
	}
	selection.Text, selection.Words = shell.Command(text), []string{longestLiteral(text)}
	if s.exact {
		selection.Text, selection.Words = shell.Command("--exact", text), []string{text}
	}
	if s.name == "" {
		return selection, nil
	}
	name, err := parseName(s.name)
	if err != nil {
		return selection, usagef("--limit-name: %s", err)
	}
	selection.Text += " " + shell.Command("--limit-name", s.name)
	if layouts {
		query.Names = name
		return selection, nil
	}
	subject, oneSubject := query.Subjects.Exact()
	whole, oneName := name.Exact()
	key := store.Key{Subject: subject, Name: whole}
	if _, isPolicys := policy.ParseKey(key); oneSubject && oneName && !isPolicys && strings.Contains(whole, "/") {
		query.Keys = []store.Key{key} // the whole name of a limit that has no name of its own
		return selection, nil
	}
	query.Match = func(key store.Key) bool {
		// A policy's limit can be called by its own name or with its policy's, as
		// --summary shows it, without what hash_by has put behind it.
		parts, isPolicys := policy.ParseKey(key)
		return name.Match(key.Name) || isPolicys && (name.Match(parts.Limit) || name.Match(parts.LimitName()))
	}
	return selection, nil
}

// byPolicy selects the keys of policies that have the attributes given as arguments.
func (s *selectionOptions) byPolicy(g *globalOptions, args []string) (selection operation.Selection, err error) {
	if g.layouts != nil && s.layoutName == "" {
		return selection, usagef("--policy selects limitctl's own keys, and the context %s reads those of %s; add %s",
			g.chosen.context.Name, g.layoutsName, shell.Command("--layout", config.OwnLayout))
	} else if g.layouts != nil {
		return selection, usagef("--policy selects limitctl's own keys, and --layout those of other limiters; give one of them")
	}
	c, err := g.config()
	if err != nil {
		return selection, err
	}
	if !s.judgesPolicy {
		s.warnOfUnknownPolicy(g, c)
	}
	if s.exact {
		return selection, usagef("--exact is for a PATTERN, not for --policy; attributes are always taken as they are")
	}
	attributes, err := policy.ParseAttributes(args)
	if err != nil {
		return selection, err
	}
	wanted := policy.Selection{Attributes: attributes}
	if wanted.Policies, err = store.ParsePattern(s.policy); err != nil {
		return selection, usagef("--policy: %s", err)
	}
	selection.Text = shell.Command("--policy", s.policy)
	if s.name != "" {
		name, err := withoutPolicy(s.name, s.policy)
		if err != nil {
			return selection, err
		}
		if wanted.Limits, err = store.ParsePattern(name); err != nil {
			return selection, usagef("--limit-name: %s", err)
		}
		selection.Text += " " + shell.Command("--limit-name", s.name)
	}
	for _, name := range attributes.Names() {
		selection.Text += " " + shell.Command(name+"="+attributes[name])
		selection.Words = append(selection.Words, attributes[name])
	}
	selection.Query, err = wanted.Query(c.Policies)
	return selection, err
}

// withoutPolicy returns a --limit-name beside a --policy, which can be written with that policy, as lists show it.
func withoutPolicy(limitName, policyName string) (string, error) {
	of, name, has := strings.Cut(limitName, "/")
	switch {
	case !has:
		return limitName, nil
	case of != policyName:
		return "", usagef("%s is of the policy %s, and %s is given; give one policy", shell.Command("--limit-name", limitName), of,
			shell.Command("--policy", policyName))
	}
	return name, nil
}

// warnOfUnknownPolicy warns if the configuration does not have the policy. It may be one
// of an earlier configuration; but if it is a slip, finding nothing would look like good
// news.
func (s *selectionOptions) warnOfUnknownPolicy(g *globalOptions, c *config.Config) {
	name, err := store.ParsePattern(s.policy)
	if err != nil || len(c.Policies) == 0 || g.quiet {
		return
	}
	if exact, is := name.Exact(); is {
		if _, err := c.Policy(exact); err != nil {
			fmt.Fprintf(g.env.Err, "limitctl: warning: %s\n", message(err))
		}
	}
}

// longestLiteral is the longest part of a pattern without the characters of a glob.
func longestLiteral(pattern string) (longest string) {
	for _, part := range strings.FieldsFunc(pattern, func(c rune) bool { return strings.ContainsRune(`*?[]\`, c) }) {
		if part = strings.Trim(part, ":"); len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

// sayNothingMatches says that a selection matches no key in the store, and what might. where is
// the store's name.
func (g *globalOptions) sayNothingMatches(ctx context.Context, backend admin.Keyspace, selection *operation.Selection, where string) {
	g.sayNothing(ctx, backend, selection, where, operation.Similar)
}

// sayNothingToDelete is sayNothingMatches for a reset, whose hint is typed next and must not select more
// than was meant.
func (g *globalOptions) sayNothingToDelete(ctx context.Context, backend admin.Keyspace, selection *operation.Selection, where string) {
	g.sayNothing(ctx, backend, selection, where, operation.NearestSubject)
}

func (g *globalOptions) sayNothing(ctx context.Context, backend admin.Keyspace, selection *operation.Selection, where string,
	meant func(context.Context, admin.Keyspace, *operation.Selection) (patterns []string, filtered bool)) {
	text := fmt.Sprintf("nothing in use matches %s in %s", selection.Text, g.placeOf(where))
	if g.layouts == nil {
		text += ", prefix " + g.chosen.prefix.value
	}
	patterns, filtered := meant(ctx, backend, selection)
	for i := range patterns {
		patterns[i] = shell.Command(patterns[i])
	}
	switch last := len(patterns) - 1; {
	case filtered:
		text += "; its subjects are in use, and the other flags leave them out"
	case last == 0:
		text += "; did you mean " + patterns[0] + "?"
	case last > 0:
		text += "; did you mean " + strings.Join(patterns[:last], ", ") + " or " + patterns[last] + "?"
	}
	g.note("%s", text)
	if g.layouts == nil && g.ofAnyKeys && len(patterns) == 0 && !filtered && !g.ownKeysAsked && isRedis(g.chosen.store.value) {
		g.note("only limitctl's own keys were looked at; add --layout auto for those of other limiters")
	}
}

// parseMinUsed reads a share of the limit such as "80%" or "0.8".
func parseMinUsed(text string) (float64, error) {
	share, percent, err := parseShare(text)
	if err != nil || share < 0 || share > 1000 {
		return 0, usagef("--min-used %q is not a share; write it like 80%% or 0.8", text)
	}
	if share > 1 && !percent { // 80 for 80% would find nothing, and look like good news
		return 0, usagef("--min-used %s would be %s times the limit; write it like 80%% or 0.8", text, strings.TrimSpace(text))
	}
	return share, nil
}

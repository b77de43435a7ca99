package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// SelectionHelp explains the arguments of commands that take a selection.
var SelectionHelp = `PATTERN is a glob over subjects: * any characters, ? one, [abc] one of a set, \
takes the next literally. A network at its end, as in ip:203.0.113.0/24, matches
each address and network inside it. Otherwise it is that subject, with all its
limits. The address of a client is what serve counts, such as its /64. --exact
takes PATTERN as it is typed.

A command that only looks for one subject reads its keys under the names of
limits that the configuration, the denials of the last hour and --limit-name
have. It scans all keys if there are none, and with --limit-name '*'. A reset
always scans.

With --policy the arguments are attributes, and select every key that has them.
A glob for POLICY, such as 'api*', also finds keys of an earlier configuration.

With --layout the keys are those of other limiters, and PATTERN is a glob over
subjects or whole keys; --layout limitctl selects limitctl's own. Keys that are
not certainly a limiter's are left out, unless PATTERN or the configuration
names them.`

// SelectionOptions say which keys a command is for.
type SelectionOptions struct {
	LayoutOptions
	Exact   bool
	Policy  string
	Name    string // of the limit
	AtLimit bool
	MinUsed string
	NoTTL   bool
}

// AddSelectionFlags adds the flags that select limitctl's keys.
func (s *SelectionOptions) AddSelectionFlags(cmd *cobra.Command, global *Globals) {
	GroupFlags(cmd, "Which keys", s.addOwnFlags)
	cmd.RegisterFlagCompletionFunc("policy", Offers(global).Policies)
	cmd.RegisterFlagCompletionFunc("limit-name", Offers(global).LimitNames)
}

func (s *SelectionOptions) addOwnFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&s.Exact, "exact", false, "take PATTERN as a subject, as it is typed")
	flags.StringVar(&s.Policy, "policy", "",
		"only keys of the `POLICY` (a glob), with the attributes given as arguments")
	flags.StringVar(&s.Name, "limit-name", "", "only limits called `NAME` (a glob)")
	flags.BoolVar(&s.AtLimit, "at-limit", false, "only keys with nothing left now")
	flags.StringVar(&s.MinUsed, "min-used", "", "only keys with at least that `SHARE` of their limit used, such as 80%")
	flags.BoolVar(&s.NoTTL, "no-ttl", false, "only keys that never expire; limitctl writes none")
}

// Arguments is the check of a command's arguments.
func (s *SelectionOptions) Arguments(cmd *cobra.Command, args []string) error {
	// An empty value comes from a script's variable that is not set. Without it more would
	// be selected than is meant.
	if err := NotEmpty(cmd, "policy", "limit-name", "min-used"); err != nil {
		return err
	}
	switch {
	case s.Policy != "":
		return nil
	case len(args) == 0:
		return Usagef("no PATTERN given; write a subject or a glob, or '*' for all, as in `%s '*'`", cmd.CommandPath())
	case len(args) > 1:
		return Usagef("%s given, and %s takes one PATTERN; quote it, so that the shell does not expand it",
			Several(args), cmd.Name())
	}
	return nil
}

// Selected turns the flags and arguments into the keys that they select.
func (s *SelectionOptions) Selected(ctx context.Context, g *Globals, args []string) (
	selection operation.Selection, err error) {
	if err := s.Use(g); err != nil {
		return selection, err
	}
	if args, err = g.NameClients(ctx, s.Exact || g.Layouts != nil, s.Policy, args); err != nil {
		return selection, err
	}
	if s.Policy == "" {
		selection, err = s.byPattern(args[0], g.Layouts != nil)
	} else {
		selection, err = s.byPolicy(ctx, g, args)
	}
	if err != nil {
		return selection, err
	}
	minShare := 0.0
	if s.MinUsed != "" {
		if minShare, err = parseMinUsed(s.MinUsed); err != nil {
			return selection, err
		}
	}
	selection.Text += s.LayoutOptions.text(g)
	selection.Keep = s.keep(minShare)
	if selection.Names, err = s.knownNames(ctx, g, &selection); err != nil {
		return selection, err
	}
	for _, flag := range []struct {
		set  bool
		text string
	}{{s.AtLimit, "--at-limit"}, {s.MinUsed != "", shell.Command("--min-used", s.MinUsed)}, {s.NoTTL, "--no-ttl"}} {
		if flag.set {
			selection.Text += " " + flag.text
		}
	}
	return selection, nil
}

// keep reports whether the flags select a state of a key; nil selects all.
func (s *SelectionOptions) keep(minShare float64) func(*admin.Entry) bool {
	atLimit, noTTL, minUsed := s.AtLimit, s.NoTTL, s.MinUsed != ""
	if !atLimit && !noTTL && !minUsed {
		return nil
	}
	return func(e *admin.Entry) bool {
		share, known := e.Share()
		return (!atLimit || e.AtLimit()) && (!minUsed || known && share >= minShare) && (!noTTL || e.TTL < 0)
	}
}

// knownNames returns the names of limits under which a selection's one subject may have keys. They are nil if it is not
// of one subject, or says itself which keys it is of.
func (s *SelectionOptions) knownNames(ctx context.Context, g *Globals, selection *operation.Selection) (
	[]string, error) {
	subject, exact := selection.Query.Subjects.Exact()
	if !exact || selection.Query.Keys != nil || s.Policy != "" || g.Layouts != nil {
		return nil, nil
	}
	names := []string{}
	if s.Name != "" {
		name, err := store.ParsePattern(s.Name)
		whole, isExact := name.Exact()
		if err != nil || !isExact {
			return nil, nil
		}
		names = append(names, whole)
	}
	c, err := g.InForce(ctx)
	if err != nil {
		return nil, err
	}
	for _, key := range allowance.KeysOf(c.Policies, subject) {
		names = append(names, key.Name)
	}
	return names, nil
}

// byPattern selects by a pattern of subjects, or with layouts also of store keys.
func (s *SelectionOptions) byPattern(text string, layouts bool) (selection operation.Selection, err error) {
	query := &selection.Query
	parse, parseName := store.ParsePattern, store.ParsePattern
	switch {
	case layouts && s.Exact:
		parse, parseName = store.ExactStoreKeyPattern, store.ParseStoreKeyPattern
	case layouts:
		parse, parseName = store.ParseStoreKeyPattern, store.ParseStoreKeyPattern
	case s.Exact:
		parse = store.ExactPattern
	}
	if query.Subjects, err = parse(text); err != nil {
		return selection, err
	}
	selection.Text = shell.Command(text)
	if s.Exact {
		selection.Text = shell.Command("--exact", text)
	}
	if s.Name == "" {
		return selection, nil
	}
	name, err := parseName(s.Name)
	if err != nil {
		return selection, Usagef("--limit-name: %s", err)
	}
	selection.Text += " " + shell.Command("--limit-name", s.Name)
	if layouts {
		query.Names = name
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
func (s *SelectionOptions) byPolicy(ctx context.Context, g *Globals, args []string) (
	selection operation.Selection, err error) {
	if g.Layouts != nil && s.LayoutName == "" {
		return selection, Usagef("--policy selects limitctl's own keys, and the context %s reads those of %s; add %s",
			g.chosen.Context.Name, g.LayoutsName, shell.Command("--layout", config.OwnLayout))
	} else if g.Layouts != nil {
		return selection, Usagef("--policy selects limitctl's own keys; leave out --layout")
	}
	c, err := g.InForce(ctx)
	if err != nil {
		return selection, err
	}
	if err := s.checkPolicy(c); err != nil {
		return selection, err
	}
	if s.Exact {
		return selection, Usagef("--exact is for a PATTERN, not for --policy")
	}
	attributes, err := policy.ParseAttributes(args)
	if err != nil {
		return selection, err
	}
	wanted := policy.Selection{Attributes: attributes}
	if wanted.Policies, err = store.ParsePattern(s.Policy); err != nil {
		return selection, Usagef("--policy: %s", err)
	}
	selection.OfPolicy, selection.Text = true, shell.Command("--policy", s.Policy)
	if s.Name != "" {
		name, err := WithoutPolicy(s.Name, s.Policy)
		if err != nil {
			return selection, err
		}
		if wanted.Limits, err = store.ParsePattern(name); err != nil {
			return selection, Usagef("--limit-name: %s", err)
		}
		selection.Text += " " + shell.Command("--limit-name", s.Name)
	}
	for _, name := range attributes.Names() {
		selection.Text += " " + shell.Command(name+"="+attributes[name])
	}
	selection.Query, err = wanted.Query(c.Policies)
	return selection, err
}

// WithoutPolicy returns a --limit-name beside a --policy, which can be written with that policy, as lists show it.
func WithoutPolicy(limitName, policyName string) (string, error) {
	of, name, has := strings.Cut(limitName, "/")
	switch {
	case !has:
		return limitName, nil
	case of != policyName:
		return "", Usagef("%s is of the policy %s, and %s is given; give one policy",
			shell.Command("--limit-name", limitName), of,
			shell.Command("--policy", policyName))
	}
	return name, nil
}

// checkPolicy refuses the name of a policy that is not in force, since no result would look like good news. Keys of an
// earlier configuration are selected with a glob.
func (s *SelectionOptions) checkPolicy(c *InForce) error {
	name, err := store.ParsePattern(s.Policy)
	if exact, is := name.Exact(); err == nil && is && len(c.Policies) > 0 {
		_, err = c.Policy(exact)
		return err
	}
	return nil
}

// SayNothingMatches reports that a selection matches no key in the store; where is the store's name.
func SayNothingMatches(g *Globals, selection *operation.Selection, where string) {
	text := fmt.Sprintf("nothing in use matches %s in %s", selection.Text, g.chosen.Place(where))
	if g.Layouts == nil {
		text += ", prefix " + g.chosen.Prefix
	}
	g.Note("%s%s", text, ColonHint(selection.Query.Subjects))
	if g.Layouts == nil && !selection.OfPolicy && isRedis(g.chosen.Store) {
		g.Note("only limitctl's own keys were looked at; add --layout auto for those of other limiters")
	}
}

// ColonHint returns what to add to a note that nothing matches subjects, if they are written like an attribute; else
// "".
func ColonHint(subjects store.Pattern) string {
	if name, value, is := strings.Cut(subjects.String(), "="); is {
		return "; in a subject it is " + shell.Command(name+":"+value)
	}
	return ""
}

// Configured returns the limit that the configuration in force has for a key, if it is that of a policy and follows
// from what is in the key; nil if there are no policies.
func (c *InForce) Configured() func(store.Key) (store.Limit, bool) {
	if len(c.Policies) == 0 {
		return nil
	}
	limits := allowance.NewConfiguredLimits(c.Policies)
	return func(key store.Key) (limit store.Limit, known bool) {
		candidates := limits.Candidates(key)
		if len(candidates) != 1 { // an override may go by an attribute that the key does not have
			return limit, false
		}
		return candidates[0].Limit, true
	}
}

// NameClients returns the arguments of a command with each address of a client as the server counts it, and says so.
// They are attributes of the policies that policies matches, or a PATTERN of subjects if it is empty. An attribute is
// the client if the configuration says so, for all of these policies. Where some differ there is an error, since
// another client could be meant. A configuration that has no such attribute says nothing. exact leaves the arguments as
// they are.
func (g *Globals) NameClients(ctx context.Context, exact bool, policies string, args []string) ([]string, error) {
	if exact || !areChangedByName(policies, args) { // the configuration does not matter
		return args, nil
	}
	c, err := g.InForce(ctx)
	if err != nil {
		return nil, err
	}
	return g.NameClientsBy(c.Config, policies, args)
}

// NameClientsBy is [Globals.NameClients] by that configuration.
func (g *Globals) NameClientsBy(c *config.Config, policies string, args []string) ([]string, error) {
	wanted, err := store.ParsePattern(cmp.Or(policies, "*"))
	if err != nil {
		return args, nil // who selects policies refuses it
	}
	var notes []string
	var differ error
	named := nameEach(policies, args, func(attribute, value string) string {
		client, with, without := value, "", ""
		for _, p := range c.Policies {
			if !wanted.Match(p.Name) || !hasAttribute(p, attribute) {
				continue
			}
			if is := c.HTTP.Client(p.Name, attribute, value); is != value {
				client, with = is, p.Name
			} else {
				without = p.Name
			}
		}
		if client == value {
			return value
		}
		note := output.Printable(value) + " is the client " + client
		if strings.Contains(client, "/") {
			note += " (ipv6_prefix)"
		}
		if notes = append(notes, note); without != "" {
			differ = Usagef("%s by the policy %s, and not by %s; name one policy with --policy, or write %s:%s, or "+
				"--exact and the subject",
				note, with, without, attribute, client)
		}
		return client
	})
	if differ != nil {
		return nil, differ
	}
	for _, note := range notes {
		if !g.Quiet {
			g.Note("%s", note)
		}
	}
	return named, nil
}

// areChangedByName reports whether a configuration can change what the arguments say.
func areChangedByName(policies string, args []string) bool {
	return !slices.Equal(nameEach(policies, args, clientOf(1)), args)
}

// AttributesOrPattern returns the policies for [Globals.NameClients] of a command that takes attributes also without
// --policy.
func AttributesOrPattern(policies string, args []string) string {
	if attributes, err := policy.ParseAttributes(args); err == nil && len(attributes) > 0 {
		return cmp.Or(policies, "*")
	}
	return policies
}

// nameEach names the clients in attributes, or in patterns if policies is empty.
func nameEach(policies string, args []string, client func(attribute, value string) string) []string {
	named := slices.Clone(args)
	for i, arg := range args {
		if name, value, is := strings.Cut(arg, "="); policies == "" {
			named[i] = allowance.NamingClients(arg, client)
		} else if is {
			named[i] = name + "=" + client(name, value)
		}
	}
	return named
}

// clientOf returns the client that a value names for a server with that ipv6_prefix.
func clientOf(bits int) func(_, value string) string {
	clients := httplimit.Clients{IPv6Bits: bits}
	return func(_, value string) string {
		if client, is := clients.Client(value); is {
			return client
		}
		return value
	}
}

// UnknownClient returns what to add to the note of an override for an address, if no policy says whether that is the
// client; else "".
func (g *Globals) UnknownClient(ctx context.Context, subjects store.Pattern) string {
	text := subjects.String()
	named := allowance.NamingClients(text, clientOf(httplimit.DefaultIPv6Bits))
	if c, err := g.InForce(ctx); err != nil || len(c.Policies) > 0 || named == text {
		return ""
	}
	return "; by default serve counts it as " + output.Printable(named)
}

// NoAttribute is the error that no key has an attribute. It is nil if one could: a policy in force has it, or what is
// in force is not known.
func (g *Globals) NoAttribute(ctx context.Context, name string) error {
	c, err := g.InForce(ctx)
	if err != nil || slices.ContainsFunc(c.Policies, func(p *policy.Policy) bool { return hasAttribute(p, name) }) {
		return nil
	}
	return Usagef("no key here has the attribute %s", name)
}

func hasAttribute(p *policy.Policy, attribute string) bool {
	known, _ := p.Attributes()
	return slices.Contains(known, attribute)
}

package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/allowance"
	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/dash"
	"github.com/limitctl/limitctl/cmd/internal/doctor"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/cmd/internal/storeurl"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// session is a dashboard of one store, from when that opens until it is closed.
type session struct {
	*dashboardOptions
	options dash.Options
	actions *dashActions // nil where nothing may be changed
	chosen  *cli.Settings
	close   func() error
}

// open opens the store that the flags name, and adds it to the options.
func (o *dashboardOptions) open(ctx context.Context, options dash.Options) (s *session, err error) {
	url, connection, err := o.Connection()
	if err != nil {
		return nil, err
	}
	backend, client, where, err := connect.OpenWithClient(url, connection)
	allow := o.OpenedToWrite
	if o.once {
		allow = o.Opened // it writes nothing
	}
	if backend, err = allow(backend, err); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			backend.Close()
		}
	}()
	options.Store, options.Where = backend, where
	options.Denials, _ = admin.DenialTableOf(backend)
	options.Overrides, _ = admin.OverrideTableOf(backend)
	chosen, err := o.Settings()
	if err == nil && !o.once {
		chosen, err = o.SettingsToChange(ctx)
	}
	if err != nil {
		return nil, err
	}
	options.Context, options.Protected = chosen.Access().Context, chosen.Access().Protected
	if c, err := o.Config(); err == nil && o.Layouts == nil {
		options.InForce = allowance.NewConfiguredLimits(c.Policies).InForce
	}
	if client != nil {
		options.NodeOf = doctor.NodeOf(client)
		options.Servers = func(ctx context.Context) []dash.Server { return dashServers(doctor.Watch(ctx, client)) }
		if err := unreachable(doctor.Watch(ctx, client)); err != nil {
			return nil, err // instead of waiting, since the address may be mistyped
		}
	}
	if words := connect.CLI(client); words != nil {
		options.LookYourself = func(storeKey, valueType string) string { return connect.Look(words, storeKey, valueType) }
	}
	s = &session{dashboardOptions: o, chosen: chosen, close: backend.Close}
	if o.Layouts == nil {
		options.Commands = s.commands
	}
	options.Find = func(ctx context.Context, q admin.Query) iter.Seq2[admin.Entry, error] {
		return o.selection.Entries(ctx, backend, q)
	}
	if !o.once {
		if s.actions = newDashActions(o.Globals, chosen, backend, where, options.Query.Subjects); s.actions != nil {
			options.Actions = s.actions
		}
	}
	s.options = options
	return s, nil
}

// commands are check and block for a key. Check knows limits of a policy and limits without a name; a block is left out
// where nothing may be changed.
func (s *session) commands(e *admin.Entry) (all []string) {
	command := func(words []string, about ...string) {
		if strings.HasPrefix(about[0], "-") {
			about = append([]string{"--"}, about...)
		}
		all = append(all, cli.CommandHere(s.Globals, s.chosen, words...)+" "+shell.Command(about...))
	}
	limit := e.Limit
	if e.Recorded != (store.Limit{}) {
		limit = e.Recorded // an override in force is added by the command itself
	}
	if parts, is := policy.ParseKey(e.Key); is {
		var attributes []string
		for _, attribute := range parts.Attributes {
			attributes = append(attributes, attribute.Name+"="+attribute.Value)
		}
		command([]string{"check", "--policy", parts.Policy}, attributes...)
	} else if e.LimitKnown() && limit.DefaultName() == e.Key.Name {
		command([]string{"check", "--limit", limit.String()}, e.Key.Subject)
	}
	if s.actions == nil {
		return all
	}
	words := []string{"block", "--for", "1h", "--reason", "seen in the dashboard"}
	if pattern, err := store.ParsePattern(e.Key.Subject); err != nil || !isExactly(pattern, e.Key.Subject) {
		words = append(words, "--exact")
	}
	command(words, e.Key.Subject)
	return all
}

// isExactly reports whether block takes a pattern for that subject and no other, and for no mistake, without --exact.
func isExactly(pattern store.Pattern, subject string) bool {
	exact, is := pattern.Exact()
	_, isWritten := policy.ParseSubject(subject)
	return is && exact == subject && isWritten && !strings.Contains(subject, "=")
}

// report prints what is to be known after the dashboard: warnings, and how to undo what was done.
func (s *session) report() {
	if s.actions != nil {
		if s.actions.warning != "" {
			fmt.Fprintf(s.Env.Err, "limitctl: warning: %s\n", s.actions.warning)
		}
		for _, backup := range s.actions.backups() {
			fmt.Fprintf(s.Env.Err, "limitctl: undo with: %s\n", cli.UndoCommand(s.Globals, s.chosen, backup))
		}
	}
}

// showAll shows a store, and then each one that is chosen from there. args are the arguments of the command.
func (s *session) showAll(ctx context.Context, args []string) error {
	var shown []*session
	defer func() {
		for _, each := range shown {
			each.report()
		}
	}()
	for {
		shown = append(shown, s)
		var next *session
		s.options.Contexts = s.contexts
		s.options.Switch = func(ctx context.Context, name string) (err error) {
			next, err = s.openContext(ctx, name, args)
			return err
		}
		err := s.show(ctx, s.options)
		s.close()
		if !errors.Is(err, dash.ErrSwitched) {
			if next != nil { // it was left meanwhile
				next.close()
			}
			return err
		}
		s = next
	}
}

// contexts are those of the configuration.
func (s *session) contexts() ([]dash.Context, error) {
	if s.record != "" {
		return nil, cli.Usagef("a recording is of one store; leave, and record the other one")
	}
	c, err := s.Config()
	if err != nil {
		return nil, err
	}
	var all []dash.Context
	for _, x := range c.Contexts {
		all = append(all, dash.Context{Name: x.Name, Store: storeurl.Redact(x.Store), ReadOnly: x.ReadOnly, Protected: x.Protected,
			InView: x == s.chosen.Context})
	}
	return all, nil
}

// openContext opens a context of the configuration as a dashboard with --context does. Only the selection of keys is that
// of the one before. What was agreed to there is not.
func (s *session) openContext(ctx context.Context, name string, args []string) (*session, error) {
	var notes bytes.Buffer
	o := *s.dashboardOptions
	o.Globals = s.InContext(name, &notes)
	inWords := func(err error) error { return errors.New(o.WithoutSecrets(cli.Message(err))) }
	options, err := o.plan(args)
	if err != nil {
		return nil, inWords(err)
	}
	next, err := o.open(ctx, options)
	if err != nil {
		return nil, inWords(err)
	}
	said := append([]string{"now in " + output.Printable(name)}, strings.Split(strings.TrimSpace(notes.String()), "\n")...)
	for i := range said {
		said[i] = strings.TrimPrefix(said[i], "limitctl: ")
	}
	next.options.Begin = strings.TrimSuffix(strings.Join(said, "; "), "; ")
	o.Env.Err = s.Env.Err // what is printed from now on is printed after the dashboard
	return next, nil
}

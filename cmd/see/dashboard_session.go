package see

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/dash"
	"github.com/limitctl/limitctl/internal/doctor"
	"github.com/limitctl/limitctl/internal/shell"
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
	options.Denials, _ = admin.TablesOf(backend)
	options.Overrides, _ = admin.TablesOf(backend)
	chosen, err := o.Settings()
	if err == nil && !o.once {
		chosen, err = o.SettingsToChange()
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
	return is && exact == subject && isWritten && !strings.Contains(subject, "=") && !cli.IsChangedByName(subject)
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

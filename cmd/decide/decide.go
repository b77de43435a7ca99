// Package decide has the commands that ask a store about limits and charge them: check, consume, run, refund and
// settle.
package decide

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func addOnErrorFlag(cmd *cobra.Command, onError *string) {
	cmd.Flags().StringVar(onError, "on-error", "",
		"what an unreachable store means: `fail|allow|deny|local[=SHARE]`; fail is an error, allow a yes, deny a no, "+
			"and with local a file on this machine decides with a share of each limit, 25% by default (default fail, "+
			"or the policy's)")
	cmd.RegisterFlagCompletionFunc("on-error", cobra.FixedCompletions([]string{"fail", "allow", "deny", "local"},
		cobra.ShellCompDirectiveNoFileComp))
}

// failure is what an unreachable store means for a command.
type failure struct {
	layers.Failure
	// decides names in a warning who decides instead of the store.
	decides string
}

// failureOf is the failure policy of --on-error, else that of the limits' policy, which may be nil. The default share
// of a local file is that of the policy, else that of the configuration.
func failureOf(g *cli.Globals, onError string, p *policy.Policy) (f failure, err error) {
	said := "--on-error " + onError
	if onError == "" && p != nil {
		onError = p.OnError.String()
		said = fmt.Sprintf("on_error: %s of policy %s", onError, p.Name)
	}
	f.decides = said + " decides"
	word, share, hasShare := strings.Cut(onError, "=")
	switch isLocal := word == store.LocalOnError.String(); {
	case onError == "":
	case !isLocal: // "allow=20%" is no policy
		f.Policy, err = store.ParseFailurePolicy(onError)
	case hasShare:
		f.Policy = store.LocalOnError
		f.Share, err = store.ParseShare(share)
	case p != nil:
		f.Policy, f.Share = store.LocalOnError, p.LocalShare
	default:
		c, err := g.Config()
		if err != nil {
			return f, err
		}
		f.Policy, f.Share = store.LocalOnError, c.LocalShare
	}
	if err != nil {
		return f, cli.Usagef("--on-error: %s", err)
	}
	if f.Policy == store.LocalOnError {
		f.decides = fmt.Sprintf("a local file decides with %s of each limit (%s)", f.Share, said)
	}
	return f, nil
}

// openToDecide opens the store for op, a take or a peek, under a failure policy: that of
// --on-error, else that of the request's policy, if it has one.
//
// countDenials asks to count denials; nil leaves that to the configuration.
func openToDecide(ctx context.Context, g *cli.Globals, op store.Op, onError string, countDenials *bool,
	request *cli.LimitRequest) (store.Store, error) {
	f, err := failureOf(g, onError, request.Policy)
	if err != nil {
		return nil, err
	}
	budget := g.Timeout
	if request.Away != nil && f.Policy != store.FailOnError { // it has had its time
		request.Away, budget = nil, g.Timeout/overrideShare
	}
	opened, where, err := openNamed(g, op, request)
	if err != nil {
		return nil, err
	}
	request.Where = where
	with := layers.Layers{Budget: budget, Overrides: overridesOf(ctx, g, opened, request), Failure: f.Failure}
	if op != store.Peek {
		if with.DenialLog, err = denialLog(g, countDenials, opened, request); err != nil {
			return nil, errors.Join(err, opened.Close())
		}
	}
	with.Observer = &layers.Observer{OnFailure: func(err error) {
		fmt.Fprintf(g.Env.Err, "limitctl: warning: %s; %s\n", cli.Message(err), f.decides)
	}}
	if f.Policy == store.LocalOnError {
		fallback := store.WithBudget(openFallback(g), g.Timeout)
		with.Failure.Fallback = fallback
		with.Around = func(backend store.Store) store.Store { return &withFallback{backend, fallback} }
	}
	return layers.Stack(opened, with), nil
}

// openNamed opens the store for op, but not a runner's own file, and not if it is not known whether the request is that
// of the policy in force.
func openNamed(g *cli.Globals, op store.Op, request *cli.LimitRequest) (opened connect.Store, where string, err error) {
	if request.Away != nil {
		return nil, "", request.Away
	}
	s, err := g.Settings()
	if err != nil {
		return nil, "", err
	}
	if err := s.CheckNamed(g.Env); err != nil {
		return nil, "", err
	}
	if op == store.Peek {
		return g.OpenToRead()
	}
	return g.Open()
}

// decide asks the store once.
func decide(ctx context.Context, backend store.Store, op store.Op, reqs []store.Request) ([]store.Decision, error) {
	decisions := make([]store.Decision, len(reqs))
	return decisions, backend.Decide(ctx, op, reqs, decisions)
}

// printDecision prints a decision, and returns a denial as the error that it is to a script.
func printDecision(g *cli.Globals, a *decisionAnswer) error {
	a.now = g.Env.Now()
	sum := store.Summarize(a.Decisions)
	if err := a.WithoutOverrides; err != nil && sum.DecidedBy == store.DecidedByStore {
		cli.WarnOfOverrides(g, err) // a warning has named who else decided
	}
	if err := g.Print(a); err != nil {
		return err
	}
	if !sum.Allowed {
		return cli.ErrDenied
	}
	return nil
}

// denialLog counts the denials of a command that takes, unless the flag says no, else the configuration; then it is
// nil. It writes them to backend when it is closed. What it cannot count, such as without the right to it, is said with
// --verbose only, since the answer holds. It does not count denials by a local file: the command ends at once, and
// should not wait a second time for a store that is away.
func denialLog(g *cli.Globals, asked *bool, backend store.Store, request *cli.LimitRequest) (
	*layers.DenialCollector, error) {
	c, err := g.Config()
	if err != nil {
		return nil, err
	}
	if request.Config != nil {
		c = request.Config.Config
	}
	if counts := cmp.Or(asked, new(!c.NoDenials)); !*counts {
		return nil, nil
	}
	log := layers.CollectDenials(backend, &layers.Observer{OnDenialLog: func(err error) {
		if err != nil && g.Verbose {
			fmt.Fprintf(g.Env.Err, "limitctl: the denial is not counted: %s\n", cli.Message(err))
		}
	}})
	log.WithoutLocal = true
	return log, nil
}

// overrideShare is which part of the store's time the reading of overrides may take before a decision, so that a store
// which hangs is not waited for twice.
const overrideShare = 4

// overridesOf reads the overrides in force in backend. If they cannot be read, the store decides without them, and
// request holds the error.
func overridesOf(ctx context.Context, g *cli.Globals, backend store.Store,
	request *cli.LimitRequest) *layers.OverrideWatch {
	watch := layers.WatchOverrides(backend, layers.Env{})
	ctx, cancel := store.BudgetContext(ctx, g.Timeout/overrideShare)
	defer cancel()
	request.WithoutOverrides = watch.Load(ctx)
	return watch
}

// openFallback returns the fallback store of the chosen store. It is read and written only while the store is away; if
// it cannot be opened, each decision returns the error.
func openFallback(g *cli.Globals) store.Store {
	path, err := cli.FallbackFile(g)
	if err != nil {
		return noFallback{err}
	}
	s, err := g.Settings()
	if err != nil {
		return noFallback{err}
	}
	backend, _, err := connect.Open(
		"file:"+path, connect.Options{Prefix: s.Prefix, Timeout: g.Timeout, OwnFile: true})
	if err != nil {
		return noFallback{err}
	}
	return backend
}

// noFallback stands for a fallback store that cannot be opened.
type noFallback struct{ reason error }

// Decide implements [store.Store].
func (s noFallback) Decide(context.Context, store.Op, []store.Request, []store.Decision) error {
	return s.reason
}

// Close implements [store.Store].
func (s noFallback) Close() error { return nil }

// withFallback is a store that is closed together with its fallback store.
type withFallback struct {
	store.Store
	fallback store.Store
}

// Close closes both.
func (s *withFallback) Close() error { return errors.Join(s.Store.Close(), s.fallback.Close()) }

// decisionAnswer is the answer of check, consume, refund and settle.
type decisionAnswer struct {
	verb string // in the past tense, for a yes: "allowed", "refunded"
	*cli.LimitRequest
	refunds bool   // show the refunded units
	again   string // is shown if the decision repeats an earlier one
	now     time.Time
}

// Document implements output.Answer.
func (a *decisionAnswer) Document() any {
	if a.refunds {
		return a.RefundDocument()
	}
	return a.Answer.Document()
}

// decisionRow is a limit in CSV, with what is said of the whole request.
type decisionRow struct {
	Key      string `json:"key"`
	Cost     int64  `json:"cost"`
	Policy   string `json:"policy"`
	Subject  string `json:"subject"`
	Repeated bool   `json:"repeated"`
	decision.Limit
}

// Records implements output.Answer.
func (a *decisionAnswer) Records() [][]string {
	rows := make([]decisionRow, len(a.Decisions))
	for i := range a.Decisions {
		rows[i] = decisionRow{Key: a.Key, Cost: a.Requests[i].Cost, Subject: a.Requests[i].Key.Subject,
			Repeated: a.Decisions[i].Repeated, Limit: a.Decided(i)}
		if a.Policy != nil {
			rows[i].Policy = a.Policy.Name
		}
		if a.refunds {
			rows[i].Refunded = &a.Decisions[i].Refunded
		}
	}
	return output.Rows(rows)
}

// Print implements output.Answer: one line, and for several limits a table below it.
func (a *decisionAnswer) Print(p *output.Printer) {
	sum := store.Summarize(a.Decisions)
	local, repeated := "", ""
	if sum.DecidedBy == store.DecidedByLocal {
		local = " locally (store unavailable)"
	}
	if sum.Repeated {
		repeated = " (" + a.again + ")"
	}
	mark := p.Paint(output.Calm, "✓ "+a.verb+local+repeated)
	if !sum.Allowed {
		mark = "✗ denied" + local
		switch {
		case a.Policy == nil || sum.Unguarded:
		case !slices.ContainsFunc(sum.DeniedBy, func(i int) bool { return !isBlock(a.Decisions[i].Override) }):
			if mark = "✗ blocked"; len(sum.DeniedBy) < len(a.Decisions) {
				mark += " for " + strings.Join(a.DeniedBy(), ", ")
			}
		default:
			mark += " by " + strings.Join(a.DeniedBy(), ", ")
		}
		mark = p.Paint(output.AtEnd, mark)
	}
	subject := output.Printable(a.Key)
	if a.refunds && a.Refunded() == 0 {
		p.Line("%s  %s: nothing is in use", p.Paint(output.AtEnd, "✗ nothing to refund"), subject)
		return
	}
	if sum.Unguarded {
		p.Line("%s  %s: the store did not answer", mark, subject)
		return
	}
	if len(a.Requests) == 1 && a.Policy == nil {
		p.Line("%s  %s: %s", mark, subject, decision.Room(&sum, a.Capacity(0), a.Leave(0)))
		a.printEnd(p)
		return
	}
	text := decision.Times(&sum)
	if !a.OwnCosts() { // else what remains of its limits cannot be compared
		text = fmt.Sprintf(", %d remaining%s", sum.Remaining, text)
	}
	if text != "" {
		subject += ": " + text[len(", "):]
	}
	p.Line("%s  %s", mark, subject)
	a.printLimits(p)
	a.printEnd(p)
}

// printLimits prints a table of the limits.
func (a *decisionAnswer) printLimits(p *output.Printer) {
	columns := []output.Column{{Header: ""}, {Header: "LIMIT", Shrinks: 12}, {Header: "USED", Right: true, Drops: 2},
		{Header: "REMAINING", Right: true, Drops: 1}, {Header: "RETRY IN", Right: true},
		{Header: "RESETS IN", Right: true, Drops: 3}}
	if a.Policy != nil {
		columns = append(slices.Insert(columns, 2, output.Column{Header: "SUBJECT", Shrinks: 12}),
			output.Column{Header: "NOTE", Shrinks: 6, Drops: 2})
	}
	var rows [][]output.Cell
	for i, d := range a.Decisions {
		sign, style := "✓", output.Calm
		var notes []string
		used, remaining := fmt.Sprintf("%d/%d", d.Used, a.Capacity(i)), cli.Number(d.Remaining)
		switch {
		case d.Unguarded:
			sign, style, used, remaining = "?", output.Near, "-", "-"
			notes = append(notes, "not decided: its store is unreachable")
		case d.Shadow && !d.Allowed:
			sign, style = "~", output.Near
			notes = append(notes, "shadow: would deny")
		case d.Shadow:
			notes = append(notes, "shadow")
		case !d.Allowed:
			sign, style = "✗", output.AtEnd
		}
		if a.OwnCosts() {
			notes = append(notes, fmt.Sprintf("cost %d", a.Requests[i].Cost))
		}
		if leave := a.Leave(i); leave > 0 {
			notes = append(notes, fmt.Sprintf("leaves %d", leave))
		}
		if a.Policy != nil && a.Overrides[i] >= 0 {
			notes = append(notes, "configured for "+a.Policy.Limits[i].Exceptions[a.Overrides[i]].When.Text())
		}
		if isBlock(d.Override) {
			notes = append(notes, "blocked")
		} else if d.Override != nil {
			notes = append(notes, cli.OperatorsText(d.Override))
		}
		row := []output.Cell{{Text: sign, Style: style}, {Text: a.Effective(i).String()}, {Text: used},
			{Text: remaining},
			{Text: cli.OrDash(d.RetryAfter)}, {Text: cli.OrDash(d.ResetAfter)}}
		if a.Policy != nil {
			row[1].Text = a.LimitName(i)
			row = append(slices.Insert(row, 2, output.Cell{Text: a.Requests[i].Key.Subject}),
				output.Cell{Text: strings.Join(notes, ", ")})
		}
		rows = append(rows, row)
	}
	p.Table(columns, rows)
}

func isBlock(o *store.Override) bool { return o != nil && o.Effect == store.OverrideBlock }

// printEnd prints what a refund lacks of its cost, and the overrides that apply.
func (a *decisionAnswer) printEnd(p *output.Printer) {
	var applied []*store.Override
	for i, d := range a.Decisions {
		if a.refunds && d.Refunded < a.Requests[i].Cost {
			p.Line("   %s: refunded %d of %s", output.Printable(a.LimitName(i)), d.Refunded,
				output.Count(int(a.Requests[i].Cost), "unit"))
		}
		applied = append(applied, d.Override)
	}
	cli.PrintApplied(p, applied, a.now)
}

// Package see has the commands that look and change nothing: inspect, denials, dashboard, handover, audit and doctor.
package see

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type inspectOptions struct {
	*cli.Globals
	cli.SelectionOptions
	sort    string
	limit   int
	summary bool
	by      string
	failIf  bool
	keys    operation.Selection
	where   string // the open store's name
	// withoutOverrides is why the overrides could not be read; nil if they were.
	withoutOverrides error
}

// NewInspectCmd makes limitctl inspect.
func NewInspectCmd(global *cli.Globals) *cobra.Command {
	o := &inspectOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "inspect PATTERN | --policy POLICY [ATTRIBUTE=VALUE...]",
		Short: "Show the state of every matching key",
		Long: `Inspect shows the usage of every limit whose subject matches PATTERN, those
closest to their limit first. It writes nothing. Among more than 100,000 keys,
one subject is looked for by known limits only, by all with --limit-name '*'.

` + cli.SelectionHelp + `

DENIED counts the denials of a key in the last 10 minutes. The sign ` + drifted + `
marks a key whose limit is not that of the configuration: the key was not used
since the limit changed, or services with another configuration use it.

On a terminal it shows the first ` + strconv.Itoa(terminalRows) + ` rows; --limit-rows changes that.
As jsonl or csv, without --sort and --limit-rows, it prints all keys in the
order in which it finds them.`,
		Example: `  limitctl inspect user:42
  limitctl inspect 'tenant:acme:*' --at-limit
  limitctl inspect --policy api tenant=acme
  limitctl inspect '*' --sort denied --limit-rows 10
  limitctl inspect '*' --summary
  limitctl inspect '*' --by tenant
  limitctl inspect 'login:*' --layout redis_rate --limit 10/1m
  limitctl inspect -q --policy api --at-limit --fail-if-any
  limitctl inspect '*' -o csv > limits.csv`,
		Args: o.Arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("by") {
				if err := policy.ValidateName("attribute", o.by); err != nil {
					return cli.Usagef("--by: %s", err)
				}
				o.summary = true
			}
			if err := o.parse(cmd.Context(), args); err != nil {
				return err
			}
			return runInspect(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.AddSelectionFlags(cmd, global)
	cli.GroupFlags(cmd, "Keys of another rate limiter", o.AddLayoutFlags)
	flags := cmd.Flags()
	flags.StringVar(&o.sort, "sort", "",
		"`ORDER` of the keys: share (the used share of the limit, the default), used, denied, bytes (the memory that "+
			"each takes in the store) or key")
	cli.NumberFlag(flags, &o.limit, "limit-rows", "n", 0, "show only the first `N` in that order")
	flags.BoolVar(&o.summary, "summary", false,
		"show how many keys each limit has, how many are at their limit, and the memory they take")
	flags.StringVar(&o.by, "by", ofLimits, "sum up by the values of `ATTRIBUTE`, such as tenant, or by limit")
	flags.BoolVar(&o.failIf, "fail-if-any", false, "exit with 1 if any key is selected, for alerts")
	cmd.RegisterFlagCompletionFunc("by", cobra.NoFileCompletions)
	cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(slices.Sorted(maps.Keys(orders())),
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// terminalRows is the default number of rows on a terminal.
const terminalRows = 100

func (o *inspectOptions) parse(ctx context.Context, args []string) (err error) {
	if o.sort != "" && orders()[o.sort] == nil {
		return cli.Usagef("--sort %q is not an order; it is one of %s", o.sort,
			strings.Join(slices.Sorted(maps.Keys(orders())), ", "))
	}
	if o.summary && o.sort != "" {
		return cli.Usagef("sums of keys have no --sort; leave it out")
	}
	if o.keys, err = o.Selected(ctx, o.Globals, args); err != nil {
		return err
	}
	o.keys.Query.Bytes = o.summary || o.sort == "bytes"
	return nil
}

func runInspect(ctx context.Context, o *inspectOptions) error {
	backend, where, err := o.OpenToRead()
	if err != nil {
		return err
	}
	defer backend.Close()
	o.where = where
	facts, err := o.keyFacts(ctx, backend)
	switch {
	case err != nil:
		return err
	case o.sort == "denied" && !facts.counted:
		return cmp.Or(facts.uncounted, store.Invalidf("nothing counts who is denied here"))
	}
	p := o.Printer()
	if p.Streams() && !p.Quiet && !o.summary && o.sort == "" && o.limit == 0 {
		return o.stream(ctx, backend, facts, p)
	}
	most := o.limit
	if most == 0 && o.Env.OutIsTerminal && o.Format.String() == "table" {
		most = terminalRows
	}
	answer, f, err := o.look(ctx, backend, facts, most)
	if sums, is := answer.(*summaryAnswer); is && err == nil && sums.none != nil && len(sums.Groups) == 1 {
		if err := o.NoAttribute(ctx, o.by); err != nil {
			return err
		}
	}
	if err == nil || f.Matched > 0 {
		if err := o.Print(answer); err != nil {
			return err
		}
	}
	return o.conclude(answer, facts, &f, err)
}

// scan calls do with each selected key.
func (o *inspectOptions) scan(ctx context.Context, backend admin.Keyspace, facts *keyFacts,
	do func(*inspectRow) error) (operation.Found, error) {
	selection := o.keys
	if facts.inForce != nil { // limitctl's own keys are judged by the limits and overrides in force
		selection = facts.inForce.Judging(selection, facts.overrides)
	}
	return cli.Scan(ctx, o.Globals, backend, &selection, func(e *admin.Entry, _ error) error {
		row := facts.row(e)
		return do(&row)
	})
}

// look scans once, and returns an answer of at most that many rows; 0 means all.
func (o *inspectOptions) look(ctx context.Context, backend admin.Keyspace, facts *keyFacts, most int) (output.Answer,
	operation.Found, error) {
	if o.summary {
		answer := &summaryAnswer{by: o.by, most: most, SchemaVersion: output.SchemaVersion, Groups: []*summaryGroup{},
			byValue: map[string]*summaryGroup{}}
		f, err := o.scan(ctx, backend, facts, answer.add)
		answer.finish()
		return answer, f, err
	}
	order := cmp.Or(o.sort, "share")
	answer := &inspectAnswer{exact: facts.exact, denied: order == "denied", now: o.Env.Now(), order: orders()[order],
		most: most}
	f, err := o.scan(ctx, backend, facts, answer.add)
	answer.sort()
	if answer.complete = err == nil; o.Layouts != nil {
		answer.unsure = &f.Unsure
	}
	return answer, f, err
}

// stream prints the keys as they are found.
func (o *inspectOptions) stream(ctx context.Context, backend admin.Keyspace, facts *keyFacts, p *output.Printer) error {
	stream, err := p.Stream(&decision.Entry{})
	if err != nil {
		return cli.NotPrinted(err)
	}
	f, err := o.scan(ctx, backend, facts, func(row *inspectRow) error {
		if err := stream.Write(row.document()); err != nil {
			return cli.NotPrinted(err)
		}
		return nil
	})
	if flushErr := stream.Flush(); flushErr != nil {
		return cli.NotPrinted(flushErr)
	}
	o.WarnOfUnread()
	return o.conclude(nil, facts, &f, err)
}

// conclude prints notes that are not in the answer, and returns the error of the command. answer is nil if all keys
// were printed.
func (o *inspectOptions) conclude(answer output.Answer, facts *keyFacts, f *operation.Found, err error) error {
	var printing *cli.OutputError
	switch {
	case errors.As(err, &printing):
		return err
	case err != nil && f.Matched > 0:
		return outcome.Partly(f.WithProgress(err))
	case err != nil: // it also says why overrides could not be read
		return f.WithProgress(err)
	}
	cli.WarnOfOverrides(o.Globals, o.withoutOverrides)
	if !o.Quiet {
		if a, is := answer.(*inspectAnswer); is && int64(len(a.rows)) < f.Matched {
			o.Note("%s of %s keys shown; --limit-rows N shows more", output.Thousands(int64(len(a.rows))),
				output.Thousands(f.Matched))
		}
		o.NoteUnsure(&f.Unsure, "not shown")
		if f.Matched == 0 && f.Foreign.Count() == 0 && f.Unsure.Count == 0 {
			cli.SayNothingMatches(o.Globals, &o.keys, o.where)
			var applied []*store.Override // whom a block denies has nothing in use
			for _, key := range o.keys.Likely() {
				if facts.overrides != nil { // else it is about other limiters
					applied = append(applied, facts.overrides.For(key))
				}
			}
			cli.PrintApplied(&output.Printer{Out: o.Env.Err}, applied, o.Env.Now())
		}
	}
	if o.failIf && f.Matched > 0 {
		return cli.ErrDenied
	}
	return f.Foreign.Err(f.Matched > 0)
}

// inspectRow is a key that inspect shows, with facts besides its state.
type inspectRow struct {
	entry admin.Entry
	decision.Facts
	// limit is that of the configuration, else the recorded one, without the override. It is zero without one.
	limit  store.Limit
	figure float64 // by which rows are ordered
}

// document is the row in JSON.
func (r *inspectRow) document() *decision.Entry { return decision.NewEntry(&r.entry, r.Facts) }

// hasDrifted reports whether the configuration has another limit than the key.
func (r *inspectRow) hasDrifted() bool { return r.Configured != (store.Limit{}) }

// keyFacts are facts about keys besides their state: how often they were denied, and their configured limits.
type keyFacts struct {
	// counted: the store counts denials. exact: no count is higher in truth.
	counted, exact bool
	uncounted      error // why they cannot be read
	denied         map[store.Key]int64
	inForce        *cli.InForce // nil for keys of other limiters
	limits         allowance.ConfiguredLimits
	overrides      *store.OverrideList
}

// keyFacts reads the facts about keys. Those about limitctl's own do not apply to others.
func (o *inspectOptions) keyFacts(ctx context.Context, backend store.Store) (*keyFacts, error) {
	f := &keyFacts{denied: map[store.Key]int64{}}
	if o.Layouts != nil {
		return f, nil
	}
	c, err := o.InForce(ctx)
	if err != nil {
		return f, err
	}
	f.inForce, f.limits = c, allowance.NewConfiguredLimits(c.Policies)
	f.overrides, o.withoutOverrides = cli.OverridesOf(ctx, o.Globals, backend)
	table, has := admin.TablesOf(backend)
	if !has {
		return f, nil
	}
	ctx, cancel := store.BudgetContext(ctx, o.Timeout)
	defer cancel()
	denials, err := table.Denials(ctx, operation.DeniedLately)
	if err != nil && !cli.IsPartial(err) { // such as a user without the right to read them
		f.uncounted = err
		return f, nil
	}
	f.counted, f.exact = true, denials.Exact()
	for _, row := range denials.Rows {
		f.denied[row.Key] = row.Count
	}
	return f, nil
}

// row returns what inspect shows of a key.
func (f *keyFacts) row(e *admin.Entry) inspectRow {
	row := inspectRow{entry: *e, Facts: decision.Facts{Counted: f.counted}}
	if len(f.denied) > 0 {
		row.Denied = f.denied[shortenedKey(e.Key)]
	}
	if f.overrides != nil {
		row.Override = f.overrides.For(e.Key)
	}
	if row.Override == nil && e.Recorded == (store.Limit{}) {
		return row // it was charged under the limit that is in force
	}
	recorded := e.LastLimit()
	limit, _ := f.limits.Of(e.Key, recorded, row.Override)
	if row.Override != nil {
		row.limit = limit
	}
	if e.LimitKnown() && f.limits.HasDrifted(e.Key, recorded, row.Override) {
		row.Configured = limit
	}
	return row
}

// shortenedKey is the key that the table of denials has for a key.
func shortenedKey(key store.Key) store.Key {
	if len(key.Subject) <= admin.MaxDenialText && len(key.Name) <= admin.MaxDenialText {
		return key
	}
	shortened := admin.Denied{Key: key}
	shortened.Shorten()
	return shortened.Key
}

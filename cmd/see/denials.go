package see

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/began"
	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

type denialsOptions struct {
	*cli.Globals
	exact    bool
	last     string
	sort     string
	by       string
	over     int64
	failIf   bool
	limit    int
	span     time.Duration
	subjects store.Pattern
}

// NewDenialsCmd makes limitctl denials.
func NewDenialsCmd(global *cli.Globals) *cobra.Command {
	o := &denialsOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "denials [PATTERN]",
		Short: "Show who is being throttled",
		Long: `Denials shows which keys were denied in the last minutes, those denied most
first. PATTERN is a glob over subjects or a network; the default is all. A
request counts once: for the first limit that denied it, or a block.

Consume, run and serve count denials, unless the configuration says "denials:
false"; services that use the library do if they ask for it. An hour is kept by
the minute, and 24 hours by ten minutes.

  BLOCKED  how often an operator's block denied: one row for a block
  SHARE    of the requests between the first and the last denial, in the
           processes that denied
  SINCE    no five minutes without a denial since; new: in the last ten minutes
  ≥        more keys were denied than a process can track

For alerts: --over N --fail-if-any exits with 1 if a limit denied a key more
than N times. Denials by a block do not count.`,
		Example: `  limitctl denials
  limitctl denials 'tenant:acme:*' --last 24h
  limitctl denials ip:203.0.113.0/24
  limitctl denials 'ip:*' --by network
  limitctl denials -q 'tenant:*' --over 100 --fail-if-any
  limitctl denials -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.Usagef("%s given, and denials takes one PATTERN; quote it, so that the shell does not "+
					"expand it",
					cli.Several(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse(cmd, args); err != nil {
				return err
			}
			return runDenials(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.exact, "exact", false, "take PATTERN as a subject, as it is typed")
	flags.StringVar(&o.last, "last", "10m", "show denials of the last `DURATION`, up to 24h")
	flags.StringVar(&o.by, "by", "",
		"sum up by the values of `ATTRIBUTE`, such as tenant, by limit, or by network (/24, of IPv6 /64)")
	flags.StringVar(&o.sort, "sort", byDenied, "`ORDER`: denied (most first), since (what began last), or key")
	cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(denialOrders, cobra.ShellCompDirectiveNoFileComp))
	cli.NumberFlag(flags, &o.over, "over", "", 0, "show only what a limit denied more than `N` times")
	flags.BoolVar(&o.failIf, "fail-if-any", false, "exit with 1 if anything is shown that a limit denied, for alerts")
	cli.NumberFlag(flags, &o.limit, "limit-rows", "n", 0, "show only the first `N`")
	cmd.RegisterFlagCompletionFunc("by", cobra.NoFileCompletions)
	return cmd
}

func (o *denialsOptions) parse(cmd *cobra.Command, args []string) (err error) {
	if o.exact && len(args) == 0 {
		return cli.Usagef("--exact is for a PATTERN, and none is given")
	}
	if len(args) == 0 {
		args = []string{"*"}
	}
	if args, err = o.NameClients(cmd.Context(), o.exact, "", args); err != nil {
		return err
	}
	if o.subjects, err = cli.ParseSubjects(args[0], o.exact); err != nil {
		return err
	}
	if o.span, err = store.ParsePeriod(o.last); err != nil || o.span <= 0 || o.span > admin.DenialHistory {
		return cli.Usagef("--last %s is not a duration of up to 24h, which is how long denials are kept; write it "+
			"like 10m or 24h", o.last)
	}
	if cmd.Flags().Changed("by") {
		if err := policy.ValidateName("attribute", o.by); err != nil {
			return cli.Usagef("--by: %s", err)
		}
	}
	if !slices.Contains(denialOrders, o.sort) {
		return cli.Usagef("--sort %q is none of denied, since and key", o.sort)
	}
	return nil
}

func runDenials(ctx context.Context, o *denialsOptions) error {
	backend, _, err := o.OpenToRead()
	if err != nil {
		return err
	}
	defer backend.Close()
	table, has := admin.TablesOf(backend)
	if !has {
		return store.Invalidf("this store keeps no denials")
	}
	within, cancel := store.BudgetContext(ctx, o.Timeout)
	defer cancel()
	denials, away := table.Denials(within, o.span)
	if away != nil && !cli.IsPartial(away) {
		return away
	}
	answer := &denialsAnswer{span: o.span, by: o.by, sort: o.sort, over: o.over}
	answer.add(&denials, o.subjects)
	if answer.found > 0 && !answer.named && o.by != ofNetworks && away == nil {
		if err := o.NoAttribute(ctx, o.by); err != nil {
			return err
		}
	}
	if o.limit > 0 {
		answer.rows = answer.rows[:min(o.limit, answer.found)]
	}
	if err := o.Print(answer); err != nil {
		return errors.Join(err, away)
	}
	if !o.Quiet && away == nil {
		o.explain(ctx, answer)
	}
	if away == nil && o.failIf && answer.Denied > 0 {
		return cli.ErrDenied
	}
	return away
}

// explain prints notes that are not in the rows.
func (o *denialsOptions) explain(ctx context.Context, a *denialsAnswer) {
	switch {
	case a.found == 0 && o.over > 0:
		o.Note("no key has a count of its own above %s in the last %s", output.Thousands(o.over),
			output.Duration(a.span))
	case a.found == 0 && a.Others == 0:
		who := ""
		if pattern := o.subjects.String(); pattern != "*" {
			who = " of " + shell.Command(pattern)
		}
		o.Note("%s", cmp.Or(o.NotCounted(ctx),
			"no denial"+who+" was counted in the last "+output.Duration(a.span)+cli.ColonHint(o.subjects)))
	case a.Others > 0:
		o.Note("%s more of keys without a count of their own: there were too many",
			output.Count(a.Others, "denial"))
	}
	if a.lost {
		o.Note("some denials may be missing: the outcome of a write is not known")
	}
	if shown := len(a.rows); shown < a.found {
		o.Note("%d of %s shown", shown, output.Count(a.found, "row"))
	}
}

// denialsAnswer is who was denied.
type denialsAnswer struct {
	denialSums
	span    time.Duration
	by      string // what --by groups by: an attribute, [ofLimits] or [ofNetworks]; empty for none
	sort    string
	over    int64 // what a limit denied no more often is left out
	rows    []*denialRow
	found   int   // how many rows there are, shown or not
	named   bool  // a key that was denied has what --by groups by
	keys    int   // of those, how many limits denied
	shadows int64 // what shadow limits would have denied, which is not in the sums
	lost    bool
	now     store.Instant
}

// denialSums are what denials come to.
type denialSums struct {
	LastMS int64 `json:"last_ms"`
	// Exact: no count is higher in truth. Others counts denials of keys without a row of their own.
	Exact   bool  `json:"exact"`
	Denied  int64 `json:"denied"`
	Others  int64 `json:"others"`
	Blocked int64 `json:"blocked"`
	Denials any   `json:"denials"`
}

// denialRow is what is said of a key, a block, or a group.
type denialRow struct {
	// Denied is what limits denied, and Blocked what an override did.
	Denied  int64     `json:"denied"`
	LastAt  time.Time `json:"last_at"`
	Blocked int64     `json:"blocked"`
	Since   time.Time `json:"since"`
	// Limit is the one that denied last; nil if it is not known, or of a group in which several did.
	Limit *string `json:"limit"`
	// Override is the ID of the last block that denied.
	Override *string `json:"override"`
	// Share is the denied share of the takes after the first denial, in the processes that denied; nil if no process
	// denied twice.
	Share *float64 `json:"share"`
	// Shadow: the limit only would have denied. The sums leave that out.
	Shadow bool `json:"shadow,omitempty"`
	denialGroup
	all    admin.Denied
	limits []store.Limit // that denied
}

// denialGroup is what a row is of.
type denialGroup struct {
	key    store.Key // of a group the value as the subject
	isNone bool      // what belongs to no group
	shadow bool
}

type keyDenials struct {
	Key  string `json:"key"`  // of a block the pattern of its subjects
	Name string `json:"name"` // of a block the pattern of its limits
	denialRow
}

type groupDenials struct {
	By    string  `json:"by"`
	Value *string `json:"value"`
	denialRow
}

// The orders of --sort: what was denied most, what began last, and the names.
const (
	byDenied = "denied"
	bySince  = "since"
	byKey    = "key"
)

var denialOrders = []string{byDenied, bySince, byKey}

// What --by groups by, besides attributes: the names of limits, and networks of addresses.
const (
	ofLimits   = "limit"
	ofNetworks = "network"
)

// add adds the denials of subjects that match. Blocks come last, since their denials are intended.
func (a *denialsAnswer) add(d *admin.Denials, subjects store.Pattern) {
	a.LastMS, a.Exact, a.Others, a.lost, a.now = a.span.Milliseconds(), d.Exact(), d.Others, d.Lost, d.Now
	all, isExact := subjects.Exact()
	if isExact { // a long one is shortened in the table
		subjects, _ = store.ExactPattern(shortenedKey(store.Key{Subject: all}).Subject)
	} else {
		all = subjects.String()
	}
	rows := map[denialGroup]*denialRow{}
	for i, denied := range slices.Concat(d.Rows, d.Blocks, d.Shadows) {
		of := a.group(denied.Key)
		a.named = a.named || !of.isNone
		of.shadow = i >= len(d.Rows)+len(d.Blocks)
		if !subjects.Match(denied.Key.Subject) {
			block, err := store.ParsePattern(denied.Key.Subject)
			if of.shadow || i < len(d.Rows) || err != nil || !block.Match(all) {
				continue
			}
		}
		if rows[of] == nil {
			rows[of] = &denialRow{denialGroup: of}
			a.rows = append(a.rows, rows[of])
		}
		rows[of].add(&denied)
	}
	a.rows = slices.DeleteFunc(a.rows, func(row *denialRow) bool { return a.over > 0 && row.Denied <= a.over })
	for _, row := range a.rows {
		if row.finish(); row.shadow {
			a.shadows += row.Denied
			continue
		}
		if a.Denied, a.Blocked = a.Denied+row.Denied, a.Blocked+row.Blocked; row.Denied > 0 {
			a.keys++
		}
	}
	slices.SortStableFunc(a.rows, func(x, y *denialRow) int {
		switch {
		case x.shadow != y.shadow: // shadows last
			return cmp.Compare(strconv.FormatBool(x.shadow), strconv.FormatBool(y.shadow))
		case a.sort == bySince:
			return cmp.Compare(y.all.Since, x.all.Since)
		case a.sort == byKey:
			return cmp.Or(cmp.Compare(x.key.Subject, y.key.Subject), cmp.Compare(x.key.Name, y.key.Name))
		}
		return cmp.Or(cmp.Compare(y.Denied, x.Denied), cmp.Compare(y.Blocked, x.Blocked))
	})
	a.found = len(a.rows)
}

// group returns what the row of a key is of.
func (a *denialsAnswer) group(key store.Key) denialGroup {
	value, has := key.Name, true
	switch a.by {
	case "":
		return denialGroup{key: key}
	case ofLimits:
	case ofNetworks:
		network, is := store.NetworkOf(key.Subject, 24, 64)
		value, has = network.String(), is
	default:
		value, has = operation.AttributeOf(key, a.by)
	}
	if !has {
		return denialGroup{isNone: true}
	}
	return denialGroup{key: store.Key{Subject: value}}
}

// add adds a key to the row.
func (r *denialRow) add(d *admin.Denied) {
	if r.all.LastAt == 0 || d.Since < r.all.Since {
		r.all.Since = d.Since
	}
	if d.Limit != (store.Limit{}) && !slices.Contains(r.limits, d.Limit) {
		r.limits = append(r.limits, d.Limit)
	}
	r.Denied += d.Count - d.Blocked
	r.Blocked += d.Blocked
	r.all.Compared += d.Compared
	r.all.Allowed += d.Allowed
	r.all.LastAt = max(r.all.LastAt, d.LastAt)
	r.all.Override = cmp.Or(r.all.Override, d.Override)
}

// finish says what the keys of the row come to.
func (r *denialRow) finish() {
	r.LastAt, r.Since, r.Shadow = output.UTC(r.all.LastAt.Time()), output.UTC(r.all.Since.Time()), r.shadow
	if len(r.limits) == 1 {
		limit := r.limits[0].String()
		r.Limit = &limit
	}
	if r.all.Override != "" {
		r.Override = &r.all.Override
	}
	if share, known := r.all.Share(); known && !r.shadow { // what a shadow lets through is not counted
		share = math.Floor(share*1000) / 1000
		r.Share = &share
	}
}

// count writes a count, marked if it is a lower bound.
func (a *denialsAnswer) count(n int64) string {
	if a.Exact {
		return output.Thousands(n)
	}
	return "≥" + output.Thousands(n)
}

// denials is count with the noun.
func (a *denialsAnswer) denials(n int64) string {
	if n == 1 {
		return a.count(n) + " denial"
	}
	return a.count(n) + " denials"
}

// Document implements output.Answer.
func (a *denialsAnswer) Document() any {
	a.Denials = a.Items()
	return struct {
		SchemaVersion int `json:"schema_version"`
		denialSums
	}{output.SchemaVersion, a.denialSums}
}

// Items implements output.Answer.
func (a *denialsAnswer) Items() any {
	if a.by == "" {
		return ofKeys(a.rows)
	}
	groups := make([]groupDenials, len(a.rows))
	for i, row := range a.rows {
		if groups[i] = (groupDenials{By: a.by, denialRow: *row}); !row.isNone {
			groups[i].Value = &row.key.Subject
		}
	}
	return groups
}

func ofKeys(rows []*denialRow) []keyDenials {
	all := make([]keyDenials, len(rows))
	for i, row := range rows {
		all[i] = keyDenials{row.key.Subject, row.key.Name, *row}
	}
	return all
}

// Print implements output.Answer.
func (a *denialsAnswer) Print(p *output.Printer) {
	if len(a.rows) == 0 {
		return
	}
	first := cmp.Or(a.by, "subject")
	if a.by == ofLimits {
		first = "name" // beside the column LIMIT
	}
	columns := []output.Column{{Header: strings.ToUpper(first), Shrinks: 8, Names: true},
		{Header: "NAME", Shrinks: 8, Names: true, Optional: true},
		{Header: "LIMIT", Drops: 2}, {Header: "DENIED", Right: true}, {Header: "BLOCKED", Right: true, Optional: true},
		{Header: "SHARE", Right: true, Drops: 1, Optional: true}, {Header: "SINCE", Right: true},
		{Header: "LAST", Right: true}}
	var rows [][]output.Cell
	for _, row := range a.rows {
		rows = append(rows, a.cells(row))
	}
	p.Table(columns, rows)
	text := a.count(a.Denied) + " denied in " + output.Duration(a.span)
	if a.keys > 0 {
		text += ", " + output.Count(a.keys, map[bool]string{true: "key", false: "group"}[a.by == ""])
	}
	if a.Blocked > 0 {
		text += "; " + a.count(a.Blocked) + " blocked"
	}
	if a.shadows > 0 {
		text += "; shadow limits would have denied " + a.count(a.shadows)
	}
	p.Line("%s", text)
}

func (a *denialsAnswer) cells(row *denialRow) []output.Cell {
	first, name, denied := output.Cell{Text: row.key.Subject}, row.key.Name, output.Cell{Text: a.count(row.Denied)}
	if row.isNone {
		first = output.Cell{Text: "(none)", Style: output.Faint}
	}
	var limit, share string
	var blocked output.Cell
	switch {
	case row.Limit != nil:
		limit = *row.Limit
	case len(row.limits) > 1:
		limit = output.Count(len(row.limits), "limit")
	}
	switch {
	case row.shadow:
		mark := &name
		if a.by != "" {
			mark = &first.Text
		}
		denied.Style, *mark = output.Faint, *mark+" (shadow)"
	case row.Denied > 0:
		denied.Style = output.AtEnd
	}
	if row.Share != nil {
		share = strconv.Itoa(int(*row.Share*100)) + "%"
	}
	if row.Blocked > 0 {
		blocked = output.Cell{Text: a.count(row.Blocked), Style: output.AtEnd}
	}
	since := output.Cell{Text: ago(row.all.Since, a.now)}
	if row.all.Since.Until(a.now) < began.Window {
		since = output.Cell{Text: "new " + since.Text, Style: output.Bold}
	}
	return []output.Cell{first, {Text: name}, {Text: limit}, denied, blocked, {Text: share}, since,
		{Text: ago(row.all.LastAt, a.now)}}
}

// ago is how long before now an instant was, in words.
func ago(at, now store.Instant) string {
	return output.Duration(at.Until(now).Truncate(time.Second)) + " ago"
}

package setup

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func newConfigExplainCmd(global *cli.Globals) *cobra.Command {
	policy := ""
	cmd := &cobra.Command{
		Use:   "explain --policy NAME ATTRIBUTE=VALUE...",
		Short: "Show which limits and overrides would apply",
		Long: `Explain shows how a policy limits a request with these attributes: what each
limit allows, which override applies, and which key counts it. If the store does
not answer, it warns and shows the limits without an operator's overrides.`,
		Example: `  limitctl config explain --policy api tenant=acme user=7 route=/c
  limitctl config explain --policy api tenant=other plan=enterprise user=7 route=/c -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runConfigExplain(cmd.Context(), global, policy, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&policy, "policy", "", "`NAME` of the policy")
	cmd.RegisterFlagCompletionFunc("policy", cli.Offers(global).Policies)
	return cmd
}

func runConfigExplain(ctx context.Context, g *cli.Globals, policy string, args []string) error {
	if policy == "" {
		return cli.Usagef("no policy given; write `limitctl config explain --policy NAME attribute=value`")
	}
	d, err := cli.PolicyRequest(ctx, g, policy, store.Peek, args, nil, "")
	if err != nil {
		return err
	}
	s, err := g.Settings()
	if err != nil {
		return err
	}
	answer := &explainAnswer{SchemaVersion: output.SchemaVersion, Policy: d.Policy.Name,
		OnError: d.Policy.OnError.String()}
	if d.Away != nil {
		by := cmp.Or(d.Config.Source.String(), d.Config.PolicyFile)
		g.Warn(fmt.Sprintf("this is by %s, since the store is away: %s", by, cli.Message(d.Away)))
	}
	if origin, said := d.Config.Origin("policies." + d.Policy.Name); said {
		answer.Origin = origin.String()
	}
	answer.now = g.Env.Now()
	overrides := readOverrides(ctx, g)
	for i, req := range d.Requests {
		applied := overrides.For(req.Key)
		under := decision.Under(req, applied, 0)
		limit := under.Limit.InWindow(store.InstantOf(answer.now))
		explained := explainedLimit{
			Limit: d.LimitName(i), By: d.Policy.Limits[i].By, Key: req.Key.Subject, Name: req.Key.Name,
			StoreKey:  admin.OwnLayout(s.Prefix).StoreKey(req.Key),
			Algorithm: limit.Algorithm.String(), Count: limit.Count, PeriodMS: output.Milliseconds(limit.Period),
			Burst: limit.Burst, Slices: limit.Slices, WindowEndsAt: decision.WindowEnd(limit),
			Cost: d.Policy.Limits[i].Cost.String(), Leave: under.Leave,
			Shadow: req.Shadow, Override: d.Overrides[i] + 1, Applied: decision.NewAppliedOverride(applied, req.Limit),
			applied: applied, text: limit.String(),
		}
		if d.Overrides[i] >= 0 {
			explained.When = d.Policy.Limits[i].Exceptions[d.Overrides[i]].When
		}
		answer.Limits = append(answer.Limits, explained)
	}
	return g.Print(answer)
}

// readOverrides reads the operator's overrides, without a line that names the store: if there are none the store does
// not matter.
func readOverrides(ctx context.Context, g *cli.Globals) *store.OverrideList {
	silent := *g
	silent.Quiet = true
	backend, _, err := silent.OpenToRead()
	if err != nil {
		g.Note("warning: overrides cannot be read: %s", cli.Message(err))
		return store.NewOverrideList(nil)
	}
	defer backend.Close()
	overrides, err := cli.OverridesOf(ctx, g, backend)
	cli.WarnOfOverrides(g, err)
	return overrides
}

// explainAnswer is the limits of a policy for attributes.
type explainAnswer struct {
	SchemaVersion int              `json:"schema_version"`
	Policy        string           `json:"policy"`
	Origin        string           `json:"origin"`
	OnError       string           `json:"on_error"`
	Limits        []explainedLimit `json:"limits"`
	now           time.Time
}

type explainedLimit struct {
	Limit        string            `json:"limit"`
	By           []string          `json:"by"`
	Key          string            `json:"key"`
	Name         string            `json:"name"`
	StoreKey     string            `json:"store_key"`
	Algorithm    string            `json:"algorithm"`
	Count        int64             `json:"count"`
	PeriodMS     int64             `json:"period_ms"`
	Burst        int64             `json:"burst"`
	Slices       int64             `json:"slices,omitempty"`
	WindowEndsAt string            `json:"window_ends_at,omitempty"`
	Cost         string            `json:"cost,omitempty"`
	Leave        int64             `json:"leave,omitempty"`
	Shadow       bool              `json:"shadow,omitempty"`
	Override     int               `json:"override,omitempty"`
	When         policy.Attributes `json:"when,omitempty"`
	// Applied is an operator's override, which the limit above includes.
	Applied *decision.AppliedOverride `json:"applied_override,omitempty"`
	applied *store.Override
	text    string
}

// Records implements output.Answer.
func (a *explainAnswer) Records() [][]string { return output.Rows(a.Limits) }

// Print implements output.Answer.
func (a *explainAnswer) Print(p *output.Printer) {
	p.Line("policy %s (%s), on_error %s", a.Policy, a.Origin, a.OnError)
	columns := []output.Column{{Header: "LIMIT", Shrinks: 10}, {Header: "ALLOWS", Shrinks: 12},
		{Header: "KEY", Shrinks: 16},
		{Header: "NOTE", Shrinks: 8}}
	var rows [][]output.Cell
	var applied []*store.Override
	for i := range a.Limits {
		l := &a.Limits[i]
		applied = append(applied, l.applied)
		var notes []string
		if l.Cost != "" {
			notes = append(notes, "cost "+l.Cost)
		}
		if l.Leave > 0 {
			notes = append(notes, fmt.Sprintf("leaves %d", l.Leave))
		}
		if l.Shadow {
			notes = append(notes, "shadow")
		}
		if l.Override > 0 {
			notes = append(notes, "configured for "+l.When.Text())
		}
		if l.applied != nil {
			notes = append(notes, cli.OperatorsText(l.applied))
		}
		rows = append(rows, []output.Cell{{Text: l.Limit}, {Text: l.text}, {Text: l.StoreKey},
			{Text: strings.Join(notes, ", ")}})
	}
	p.Table(columns, rows)
	cli.PrintApplied(p, applied, a.now)
}

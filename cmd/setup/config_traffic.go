package setup

import (
	"context"
	"errors"
	"slices"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/trace"
)

// replay decides the recorded traffic, if there is some, under the policies that differ, before and after, in the order
// of the new ones. A policy that cannot be tried on the log, such as one whose attributes it does not have, has the
// reason instead.
func (o *diffOptions) replay(ctx context.Context, answer *diffAnswer, before, after *config.Config) error {
	if o.trace == "" {
		return nil
	}
	names := []string{}
	for _, p := range slices.Concat(after.Policies, before.Policies) {
		old, now := configfile.NamedPolicy(before.Policies, p.Name), configfile.NamedPolicy(after.Policies, p.Name)
		if slices.Contains(names, p.Name) || old != nil && now != nil && !differs(before, after, p.Name) {
			continue
		}
		names = append(names, p.Name)
		t := traffic{Policy: p.Name}
		for _, under := range []struct {
			policy *policy.Policy
			of     *config.Config
			denied **int64
		}{{old, before, &t.DeniedBefore}, {now, after, &t.DeniedAfter}} {
			if under.policy == nil {
				continue
			}
			simulation, leftOut, err := o.simulate(ctx, under.policy, under.of)
			if wrong := new(notOnLogError); errors.As(err, &wrong) {
				t.Error = wrong.Error()
				continue
			} else if err != nil {
				return err
			}
			denied := simulation.Denied
			t.Requests, t.LeftOut, *under.denied = simulation.Requests, leftOut, &denied
		}
		answer.Traffic = append(answer.Traffic, t)
	}
	return nil
}

// notOnLogError says why a policy cannot be tried on the log.
type notOnLogError struct{ error }

// differs reports whether the limits of a policy differ.
func differs(before, after *config.Config, name string) bool {
	return slices.ContainsFunc(config.Differences(before, after), func(d config.Difference) bool {
		return d.Policy == name
	})
}

// simulate decides the log under one policy of a configuration.
func (o *diffOptions) simulate(ctx context.Context, p *policy.Policy, c *config.Config) (
	*loadgen.Simulation, int64, error) {
	attributes, needed := p.Attributes()
	from := trace.Options{}
	for _, name := range attributes {
		if needed[name] {
			from.Key = append(from.Key, name)
		} else {
			from.Further = append(from.Further, trace.Field{Name: name, Optional: true})
		}
	}
	if costs := p.CostFields(); len(costs) == 1 {
		from.Cost = costs[0]
	}
	file, err := files.Open(o.trace)
	if err != nil {
		return nil, 0, cli.Usagef("--trace %s cannot be read: %s", output.Printable(o.trace), cli.Cause(err))
	}
	defer file.Close()
	log, err := trace.Read(ctx, file, from)
	switch {
	case ctx.Err() != nil:
		return nil, 0, ctx.Err()
	case err != nil:
		return nil, 0, &notOnLogError{err}
	}
	indexes := make([]int, len(attributes))
	for i, name := range attributes {
		indexes[i] = slices.Index(log.Fields, name)
	}
	simulation, err := loadgen.Simulate(ctx, log, loadgen.UnderPolicy(indexes, attributes, p, &c.HTTP),
		loadgen.SimulateOptions{})
	return simulation, log.Bad, err
}

// traffic is what recorded traffic would have got under a policy.
type traffic struct {
	Policy   string `json:"policy"`
	Requests int64  `json:"requests"`
	// DeniedBefore and DeniedAfter are how many would have been denied; null without the policy.
	DeniedBefore *int64 `json:"denied_before"`
	DeniedAfter  *int64 `json:"denied_after"` // how many the new version would have denied; null without the policy
	// LeftOut counts the lines of the log that lack an attribute of the policy, or cannot be read.
	LeftOut int64 `json:"left_out,omitempty"`
	// Error says why the log was not tried under the policy, such as that it lacks a field.
	Error string `json:"error,omitempty"`
}

// trafficTable returns the traffic as a table.
func trafficTable(all []traffic) (columns []output.Column, rows [][]output.Cell) {
	cell := func(denied *int64) output.Cell {
		if denied == nil {
			return output.Cell{Text: "-"}
		}
		return output.Cell{Text: cli.Number(*denied)}
	}
	for _, t := range all {
		rows = append(rows, []output.Cell{{Text: t.Policy}, {Text: cli.Number(t.Requests)}, cell(t.DeniedBefore),
			cell(t.DeniedAfter)})
	}
	return []output.Column{{Header: "POLICY"}, {Header: "REQUESTS", Right: true},
		{Header: "DENIED BEFORE", Right: true},
		{Header: "DENIED AFTER", Right: true}}, rows
}

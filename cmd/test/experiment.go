package test

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/experiment"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// refuseLoadTest refuses a load test in a protected or read-only context, since it writes to the store.
func refuseLoadTest(g *cli.Globals) error {
	s, err := g.SettingsToChange()
	if err != nil {
		return err
	}
	switch access := s.Access(); {
	case access.ReadOnly:
		return &connect.ReadOnlyError{Context: access.Context, What: "load test"}
	case access.Reached:
		return cli.Usagef("this is the store of the protected context %q; a load test is for another store",
			access.Context)
	case access.Protected:
		return cli.Usagef("context %q is protected; a load test is for another store", access.Context)
	}
	return nil
}

// experimentLimitFlags are the flags of commands that try limits under one or several algorithms.
type experimentLimitFlags struct {
	limits     []string
	algorithms string
}

// addFlags adds the flags. repeated is the help about a repeated --limit.
func (o *experimentLimitFlags) addFlags(cmd *cobra.Command, repeated string) {
	flags := cmd.Flags()
	// Not a StringSlice: a limit may hold a comma.
	flags.StringArrayVarP(&o.limits, "limit", "l", nil,
		"`[ALGORITHM:]COUNT/PERIOD[,burst=N|,slices=N]`, such as 30/1m; repeat it "+repeated)
	flags.StringVarP(&o.algorithms, "algorithm", "a", "",
		"try limits that name no algorithm under each of the `ALGORITHMS`: all, or some with commas between (default "+
			"token-bucket)")
}

// candidates returns the limits that are decided together: a candidate for each algorithm. endpoint: an endpoint
// decides them.
func (o *experimentLimitFlags) candidates(endpoint bool) (all []experiment.Candidate, err error) {
	each, err := o.each()
	if err != nil {
		return nil, err
	}
	if len(each) == 0 {
		orPolicy := ", or --policy NAME"
		if endpoint { // which no policy is for
			orPolicy = "; limitctl probe URL finds out which it has"
		}
		return nil, cli.Usagef("no limit given; add --limit COUNT/PERIOD, such as --limit 10/1m%s", orPolicy)
	}
	runs := len(slices.MaxFunc(each, func(a, b []store.Limit) int { return cmp.Compare(len(a), len(b)) }))
	for i := range runs {
		var c experiment.Candidate
		for _, under := range each {
			limit, err := under[min(i, len(under)-1)].Normalize()
			if err != nil {
				return nil, err
			}
			c.Limits = append(c.Limits, limit)
		}
		all = append(all, c)
	}
	return all, nil
}

// each returns every limit under each algorithm that it is tried under: the one that it names, or those of --algorithm.
func (o *experimentLimitFlags) each() (each [][]store.Limit, err error) {
	algorithms, err := parseAlgorithms(o.algorithms)
	if err != nil {
		return nil, err
	}
	used := o.algorithms == ""
	for _, text := range cli.EachLimit(o.limits) {
		if limit, err := store.ParseLimit(text); err == nil && limit.Algorithm != 0 {
			each = append(each, []store.Limit{limit})
			continue
		}
		used = true
		var tried []store.Limit
		for _, algorithm := range algorithms {
			limit, err := store.ParseLimitAs(text, algorithm)
			if err != nil {
				return nil, err
			}
			tried = append(tried, limit)
		}
		if o.algorithms == everyAlgorithm {
			sliced := tried[len(tried)-1]
			sliced.Algorithm, sliced.Slices = store.SlidingCounter, slicesTried
			if _, err := sliced.Normalize(); err == nil { // the period can be cut so
				tried = append(tried, sliced)
			}
		}
		each = append(each, tried)
	}
	if !used {
		return nil, cli.Usagef("--algorithm %s applies to none of the limits; it is for limits that name no algorithm",
			o.algorithms)
	}
	return each, nil
}

// everyAlgorithm is the word for all algorithms, and slicesTried is the number of slices of a second sliding counter
// among these.
const (
	everyAlgorithm = "all"
	slicesTried    = 10
)

// parseAlgorithms reads "all", or algorithms separated by commas.
func parseAlgorithms(text string) ([]store.Algorithm, error) {
	switch text {
	case "":
		return []store.Algorithm{store.TokenBucket}, nil
	case everyAlgorithm:
		return store.Algorithms(), nil
	}
	var algorithms []store.Algorithm
	for name := range strings.SplitSeq(text, ",") {
		algorithm, err := store.ParseAlgorithm(strings.TrimSpace(name))
		if err != nil {
			return nil, cli.Usagef("--algorithm: %s; separate several with commas, or write all", err)
		}
		if slices.Contains(algorithms, algorithm) {
			return nil, cli.Usagef("--algorithm has %s twice; name each once", algorithm)
		}
		algorithms = append(algorithms, algorithm)
	}
	return algorithms, nil
}

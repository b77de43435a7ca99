package test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/experiment"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// loadOptions are the flags about the load.
type loadOptions struct {
	rate         float64
	stages       string
	workers      int
	duration     time.Duration
	requests     int64
	warmup       time.Duration
	keys         int
	distribution string
	cost         string
	costField    string // the field of the cost, from cost
	scenario     string
	seed         uint64
	choosesRate  bool // no flag says when requests are sent
}

// Bounds and defaults of loads.
const (
	maxSubjects     = 10_000_000
	maxWorkers      = 100_000
	maxRate         = 10_000_000
	defaultRate     = 1000
	mostChosenRate  = 10_000 // that two processors can send to a store beside it
	defaultWorkers  = 256
	defaultDuration = 10 * time.Second
)

func (o *loadOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	cli.DecimalFlag(flags, &o.rate, "rate", "r",
		fmt.Sprintf("`N` requests a second in total, on schedule (default from %d to %d, so that a limit is reached, "+
			"unless "+
			"--workers alone is given)", defaultRate, mostChosenRate))
	flags.StringVar(&o.stages, "stages", "",
		"`DURATION:RATE,...`: go evenly from the rate before, 0 at first, to each rate, such as "+
			"10s:1000,30s:5000,10s:0")
	cli.NumberFlag(flags, &o.workers, "workers", "w", defaultWorkers,
		"`N` requests may be under way at once; without a rate, each worker sends when its last one is answered")
	cli.DurationFlag(flags, &o.duration, "duration", "d", 0,
		"send for `DURATION` (default 10s, or the stages' or the scenario's own length)")
	cli.NumberFlag(flags, &o.requests, "requests", "n", 0, "send at most `N` requests")
	cli.DurationFlag(flags, &o.warmup, "warmup", "", 0,
		"audit the requests of the first `DURATION`, but do not count or time them")
	cli.NumberFlag(flags, &o.keys, "keys", "k", 1, "`N` subjects ask")
	flags.StringVar(&o.distribution, "distribution", "uniform",
		"`HOW` often each subject asks: uniform or zipf:S, such as zipf:1.1")
	flags.StringVar(&o.cost, "cost", "1",
		"`UNITS` a request takes: a number, or uniform:1-100; or tokens=UNITS of the limits of a "+
			"policy whose cost is tokens")
	flags.StringVar(&o.scenario, "scenario", "", "send a `PATTERN` that breaks naive limiters: "+scenarioNames())
	cli.NumberFlag(flags, &o.seed, "seed", "", 1,
		"`NUMBER` that starts all random choices; the same number gives the same requests")
	cmd.RegisterFlagCompletionFunc("scenario",
		cobra.FixedCompletions(strings.Split(scenarioNames(), ", "), cobra.ShellCompDirectiveNoFileComp))
}

func scenarioNames() string {
	var names []string
	for _, s := range loadgen.Scenarios() {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}

// parse returns the load of the flags.
func (o *loadOptions) parse(cmd *cobra.Command) (load experiment.Load, err error) {
	given := cmd.Flags().Changed
	if err := o.checkBounds(given); err != nil {
		return load, err
	}
	load = experiment.Load{
		Subjects: o.keys, Seed: o.seed, Workers: o.workers, Duration: o.duration, Requests: o.requests,
		Warmup: o.warmup,
	}
	if load.Mix.Costs, err = o.parseCosts(); err != nil {
		return load, err
	}
	if given("scenario") {
		return load, o.addScenario(&load, given)
	}
	if load.Mix.Subjects, err = parseDistribution(o.distribution, o.keys); err != nil {
		return load, err
	}
	return load, o.addSchedule(&load, given)
}

// parseCosts reads "5" or "uniform:1-100", or one of them behind the field of the cost: "tokens=5".
func (o *loadOptions) parseCosts() (loadgen.Costs, error) {
	text := o.cost
	if field, units, has := strings.Cut(text, "="); has {
		if err := policy.ValidateName("cost", field); err != nil {
			return loadgen.Costs{}, cli.Usagef("--cost %q: %s", text, err)
		}
		o.costField, text = field, units
	}
	least, most := text, text
	if span, is := strings.CutPrefix(text, "uniform:"); is {
		least, most, _ = strings.Cut(span, "-")
	}
	low, err := store.ParseNumber("cost", least, 1, store.MaxCount)
	high, highErr := store.ParseNumber("cost", most, 1, store.MaxCount)
	if err != nil || highErr != nil || high < low {
		return loadgen.Costs{}, cli.Usagef("--cost %q is not a cost; write a number from 1 to %d, or uniform:1-100",
			text, store.MaxCount)
	}
	return loadgen.Costs{Least: low, Most: high}, nil
}

// checkCost reports a cost that does not fit the policy, which may be nil. given: the command line has --cost.
func (o *loadOptions) checkCost(p *policy.Policy, load *experiment.Load, given bool) error {
	if p == nil {
		if o.costField != "" {
			return cli.Usagef("--cost %s is for a --policy with that cost; write the number alone", o.cost)
		}
		return nil
	}
	if load.Scenario != nil && p.HasOwnCosts() {
		return cli.Usagef("--scenario %s sends what one limit allows, and limits of policy %q have their own costs; "+
			"send a --rate",
			o.scenario, p.Name)
	}
	fields := p.CostFields()
	if o.costField == "" && len(fields) > 0 {
		return cli.MissingCosts(p, fields)
	}
	if o.costField == "" {
		return p.CheckCost(store.Take, load.Mix.Costs.Least, given)
	}
	if !slices.Contains(fields, o.costField) || len(fields) == 1 {
		_, err := p.UnitsOf(1, policy.FieldCost{Field: o.costField, Units: 1})
		return err
	}
	return nil // the plan of the load reports several fields
}

func (o *loadOptions) checkBounds(given func(flag string) bool) error {
	longest := store.FormatPeriod(experiment.MaxDuration)
	for _, bound := range []struct {
		wrong      bool
		flag, must string
	}{
		{given("rate") && (!(o.rate > 0) || o.rate > maxRate), "rate", fmt.Sprintf("above 0 and at most %d", maxRate)},
		{o.workers < 1 || o.workers > maxWorkers, "workers", fmt.Sprintf("from 1 to %d", maxWorkers)},
		{given("duration") && (o.duration <= 0 || o.duration > experiment.MaxDuration), "duration",
			"above 0 and at most " + longest},
		{given("requests") && o.requests < 1, "requests", "1 or more"},
		{o.keys < 1 || o.keys > maxSubjects, "keys", fmt.Sprintf("from 1 to %d", maxSubjects)},
	} {
		if bound.wrong {
			return cli.Usagef("--%s must be %s", bound.flag, bound.must)
		}
	}
	for _, pair := range [][2]string{{"rate", "stages"}, {"rate", "scenario"}, {"stages", "scenario"},
		{"distribution", "scenario"}, {"cost", "scenario"}} {
		if given(pair[0]) && given(pair[1]) {
			return cli.Usagef("--%s and --%s exclude each other; give one of them", pair[0], pair[1])
		}
	}
	return nil
}

// addSchedule sets the times of requests of a load without a scenario.
func (o *loadOptions) addSchedule(load *experiment.Load, given func(flag string) bool) (err error) {
	if given("stages") {
		if load.Stages, err = parseStages(o.stages); err != nil {
			return err
		}
		if given("duration") {
			load.Stages = loadgen.Cut(load.Stages, o.duration)
			load.Duration = loadgen.Length(load.Stages)
		}
		load.Rate = loadgen.Total(load.Stages) / loadgen.Length(load.Stages).Seconds()
		load.Words = o.words("stages "+o.stages, given)
		return nil
	}
	if !given("duration") {
		load.Duration = defaultDuration
	}
	if !given("rate") && given("workers") {
		load.Words = o.words("closed loop of "+output.Count(o.workers, "worker"), given)
		return nil
	}
	if load.Rate = o.rate; !given("rate") {
		load.Rate, o.choosesRate = defaultRate, true
	}
	o.sendEvenly(load, given)
	return nil
}

// sendEvenly makes a load one of its rate.
func (o *loadOptions) sendEvenly(load *experiment.Load, given func(flag string) bool) {
	load.Stages = []loadgen.Stage{{Duration: load.Duration, From: load.Rate, To: load.Rate}}
	load.Words = o.words(strconv.FormatFloat(load.Rate, 'f', -1, 64)+"/s", given)
}

// addScenario makes a load that of a scenario.
func (o *loadOptions) addScenario(load *experiment.Load, given func(flag string) bool) error {
	scenario, err := loadgen.ParseScenario(o.scenario)
	if err != nil {
		return cli.Usagef("--scenario: %s", err)
	}
	if !given("keys") {
		load.Subjects = scenario.Subjects
	}
	if load.Subjects < scenario.LeastSubjects {
		return cli.Usagef("--keys %d is too few for the scenario %s; it needs %d or more", load.Subjects, scenario.Name,
			scenario.LeastSubjects)
	}
	load.Scenario = &scenario
	load.Words = scenario.About + ", over " + output.Count(load.Subjects, "key")
	return nil
}

// words describe the load, for a report. schedule is the flag with the times of requests.
func (o *loadOptions) words(schedule string, given func(flag string) bool) string {
	text := schedule + ", over " + output.Count(o.keys, "key")
	if given("distribution") && o.distribution != "uniform" {
		text += " (" + o.distribution + ")"
	}
	if o.cost != "1" {
		text += ", cost " + o.cost
	}
	return text
}

// parseStages reads "10s:1000,30s:5000".
func parseStages(text string) ([]loadgen.Stage, error) {
	var durations []time.Duration
	var targets []float64
	for part := range strings.SplitSeq(text, ",") {
		length, rate, found := strings.Cut(strings.TrimSpace(part), ":")
		duration, err := store.ParsePeriod(length)
		target, ok := parseDecimal(rate)
		fits := duration > 0 && duration <= experiment.MaxDuration && target <= maxRate
		if !found || err != nil || !ok || !fits {
			return nil, cli.Usagef("--stages: %q is not a stage; write DURATION:RATE, such as 30s:5000, with commas "+
				"between stages", part)
		}
		durations, targets = append(durations, duration), append(targets, target)
	}
	stages := loadgen.Ramp(0, durations, targets)
	if loadgen.Total(stages) < 1 {
		return nil, cli.Usagef("--stages %s sends nothing; give a rate above 0", text)
	}
	return stages, nil
}

// parseDistribution reads "uniform" or "zipf:1.1".
func parseDistribution(text string, subjects int) (d loadgen.Distribution, err error) {
	if text == "uniform" {
		return loadgen.Evenly(uint32(subjects)), nil
	}
	how, rest, _ := strings.Cut(text, ":")
	if s, ok := parseDecimal(rest); how == "zipf" && ok && s > 0 && s <= 10 {
		return loadgen.Zipf(uint32(subjects), s), nil
	}
	return d, cli.Usagef("--distribution %q must be uniform or zipf:S with S above 0 and at most 10, such as zipf:1.1",
		text)
}

// parseDecimal reads a number such as 0.5, 200 or 2k.
func parseDecimal(text string) (number float64, ok bool) {
	decimal, ok := store.ParseDecimal(text)
	if ok {
		number, _ = decimal.Float64()
	}
	return number, ok
}

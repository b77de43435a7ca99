package cmd

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// loadOptions say what load to make.
type loadOptions struct {
	rate         float64
	arrivals     string
	stages       string
	workers      int
	duration     time.Duration
	requests     int64
	warmup       time.Duration
	keys         int
	distribution string
	cost         string
	scenario     string
	seed         uint64

	given       func(flag string) bool
	closed      bool
	parsed      []loadgen.Stage
	burst       int // arrivals at once, 0 if not in bursts
	interval    time.Duration
	mix         loadgen.Mix
	costs       loadgen.Costs
	theScenario *loadgen.Scenario
}

// Bounds and defaults of loads.
const (
	maxSubjects     = 10_000_000
	maxWorkers      = 100_000
	maxRate         = 10_000_000
	maxLoadDuration = 31 * 24 * time.Hour
	defaultRate     = 1000
	defaultWorkers  = 256
	defaultDuration = 10 * time.Second
)

func (o *loadOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	o.given = flags.Changed
	flags.Float64VarP(&o.rate, "rate", "r", 0, fmt.Sprintf("`N` requests a second in all, on schedule (default %d, unless --workers alone is given)", defaultRate))
	flags.StringVar(&o.arrivals, "arrivals", "uniform", "`HOW` requests arrive: uniform, poisson, or bursts:N/INTERVAL")
	flags.StringVar(&o.stages, "stages", "", "`DURATION:RATE,...`: go evenly from the rate before, 0 at first, to each rate, such as 10s:1000,30s:5000,10s:0")
	flags.IntVarP(&o.workers, "workers", "w", defaultWorkers, "`N` requests may be under way at once; without a rate, each worker sends when its last one is answered")
	flags.DurationVarP(&o.duration, "duration", "d", 0, "send for `DURATION` (default 10s, the stages' length, or the scenario's or recording's own)")
	flags.Int64VarP(&o.requests, "requests", "n", 0, "send at most `N` requests")
	flags.DurationVar(&o.warmup, "warmup", 0, "do not count or time what is sent in the first `DURATION`; it is audited")
	flags.IntVarP(&o.keys, "keys", "k", 1, "`N` subjects ask")
	flags.StringVar(&o.distribution, "distribution", "uniform", "`HOW` often each subject asks: uniform, zipf:S, hot:SHARE/N (such as hot:90%/3) or sequential")
	flags.StringVarP(&o.cost, "cost", "c", "1", "`UNITS` a request takes: a number, or uniform:1-100")
	flags.StringVar(&o.scenario, "scenario", "", "send a `PATTERN` that breaks naive limiters: "+scenarioNames())
	flags.Uint64Var(&o.seed, "seed", 1, "`NUMBER` that what is random follows from; the same gives the same requests")
	cmd.RegisterFlagCompletionFunc("arrivals", cobra.FixedCompletions([]string{"uniform", "poisson", "bursts:"}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	cmd.RegisterFlagCompletionFunc("distribution", cobra.FixedCompletions([]string{"uniform", "zipf:", "hot:", "sequential"}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	cmd.RegisterFlagCompletionFunc("scenario", cobra.FixedCompletions(strings.Split(scenarioNames(), ", "), cobra.ShellCompDirectiveNoFileComp))
	for _, flag := range []string{"rate", "stages", "workers", "duration", "requests", "warmup", "keys", "cost", "seed"} {
		cmd.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions)
	}
}

func scenarioNames() string {
	var names []string
	for _, s := range loadgen.Scenarios() {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}

func (o *loadOptions) parse(cmd *cobra.Command) (err error) {
	said := ""
	for _, flag := range []string{"rate", "stages", "scenario", "replay"} {
		if cmd.Flags().Lookup(flag) == nil || !o.given(flag) {
			continue
		}
		if said != "" {
			return usagef("--%s and --%s both say when requests are sent; give one of them", said, flag)
		}
		said = flag
	}
	switch {
	case o.given("rate") && (!(o.rate > 0) || o.rate > maxRate):
		return usagef("--rate %v is out of range; it must be above 0 and at most %d", o.rate, maxRate)
	case o.workers < 1 || o.workers > maxWorkers:
		return usagef("--workers %d is out of range; it must be from 1 to %d", o.workers, maxWorkers)
	case o.given("duration") && (o.duration <= 0 || o.duration > maxLoadDuration):
		return usagef("--duration %s is out of range; it must be above 0 and at most %s", o.duration, limiter.FormatPeriod(maxLoadDuration))
	case o.given("requests") && o.requests < 1:
		return usagef("--requests %d is not positive; it must be 1 or more", o.requests)
	case o.warmup < 0:
		return usagef("--warmup %s is negative; it must be 0 or more", o.warmup)
	case o.keys < 1 || o.keys > maxSubjects:
		return usagef("--keys %d is out of range; it must be from 1 to %d", o.keys, maxSubjects)
	}
	if err := o.parseArrivals(said); err != nil {
		return err
	}
	if o.costs, err = parseCosts(o.cost); err != nil {
		return err
	}
	if said == "scenario" {
		return o.parseScenario()
	}
	if o.mix.Subjects, err = parseDistribution(o.distribution, o.keys); err != nil {
		return err
	}
	o.mix.Costs = o.costs
	return o.parseWhen(said)
}

// parseWhen makes the stages of the load, if it is not a closed loop.
func (o *loadOptions) parseWhen(said string) error {
	if o.duration == 0 {
		o.duration = defaultDuration
	}
	switch {
	case said == "replay" || o.burst > 0: // they have times of their own
	case said == "stages":
		stages, err := parseStages(o.stages)
		if err != nil {
			return err
		}
		if o.given("duration") {
			stages = loadgen.Cut(stages, o.duration)
		}
		o.parsed, o.duration = stages, loadgen.Length(stages)
	case said == "" && o.given("workers"):
		if o.given("arrivals") {
			return usagef("--arrivals %s is about a rate, and --workers without one is a closed loop; add --rate N", o.arrivals)
		}
		o.closed = true
	case said == "" || said == "rate":
		if said == "" && o.burst == 0 {
			o.rate = defaultRate
		}
		o.parsed = []loadgen.Stage{{Duration: o.duration, From: o.rate, To: o.rate}}
	}
	if said == "replay" {
		return nil
	}
	return o.checkWarmup(o.duration)
}

// checkWarmup sees that something is left to be counted of a run of that length.
func (o *loadOptions) checkWarmup(length time.Duration) error {
	if o.warmup > 0 && o.warmup >= length {
		return usagef("--warmup %s leaves nothing of the run's %s to be counted; make it shorter", o.warmup, output.Duration(length))
	}
	return nil
}

func (o *loadOptions) parseArrivals(said string) error {
	how, rest, _ := strings.Cut(o.arrivals, ":")
	switch {
	case (how == "uniform" || how == "poisson") && rest == "" && !strings.HasSuffix(o.arrivals, ":"):
	case how == "bursts":
		size, interval, found := strings.Cut(rest, "/")
		n, err := strconv.Atoi(size)
		every, intervalErr := limiter.ParsePeriod(interval)
		if !found || err != nil || intervalErr != nil || n < 1 || n > maxRate || every <= 0 {
			return usagef("--arrivals %q is no burst; write bursts:N/INTERVAL, such as bursts:100/1s", o.arrivals)
		}
		if said != "" {
			return usagef("--arrivals %s and --%s both say when requests are sent; give one of them", o.arrivals, said)
		}
		o.burst, o.interval = n, every
		o.rate = float64(n) / every.Seconds()
	default:
		return usagef("--arrivals %q is unknown; it is uniform, poisson or bursts:N/INTERVAL", o.arrivals)
	}
	if o.given("arrivals") && (said == "scenario" || said == "replay") {
		return usagef("--arrivals and --%s both say when requests are sent; give one of them", said)
	}
	return nil
}

func (o *loadOptions) parseScenario() error {
	scenario, err := loadgen.ParseScenario(o.scenario)
	if err != nil {
		return usagef("--scenario: %s", err)
	}
	for _, flag := range []string{"distribution", "cost"} {
		if o.given(flag) {
			return usagef("--%s and --scenario both say who asks for how much; give one of them", flag)
		}
	}
	if !o.given("keys") {
		o.keys = scenario.Subjects
	}
	if o.keys < scenario.LeastSubjects {
		return usagef("--keys %d is too few for the scenario %s; it needs %d or more", o.keys, scenario.Name, scenario.LeastSubjects)
	}
	o.theScenario = &scenario
	if o.duration == 0 { // it follows from the time that it begins
		return nil
	}
	return o.checkWarmup(o.duration)
}

// parseStages reads "10s:1000,30s:5000".
func parseStages(text string) ([]loadgen.Stage, error) {
	var durations []time.Duration
	var targets []float64
	for part := range strings.SplitSeq(text, ",") {
		length, rate, found := strings.Cut(strings.TrimSpace(part), ":")
		duration, err := limiter.ParsePeriod(length)
		target, rateErr := strconv.ParseFloat(rate, 64)
		if !found || err != nil || rateErr != nil || duration <= 0 || duration > maxLoadDuration || !(target >= 0) || target > maxRate {
			return nil, usagef("--stages: %q is no stage; write DURATION:RATE, such as 30s:5000, with commas between stages", part)
		}
		durations, targets = append(durations, duration), append(targets, target)
	}
	stages := loadgen.Ramp(0, durations, targets)
	if loadgen.Total(stages) < 1 {
		return nil, usagef("--stages %s sends nothing; give a rate above 0", text)
	}
	return stages, nil
}

func parseCosts(text string) (loadgen.Costs, error) {
	least, most := text, text
	if span, is := strings.CutPrefix(text, "uniform:"); is {
		least, most, _ = strings.Cut(span, "-")
	}
	low, err := strconv.ParseInt(least, 10, 64)
	high, highErr := strconv.ParseInt(most, 10, 64)
	if err != nil || highErr != nil || low < 1 || high < low || high > limiter.MaxCount {
		return loadgen.Costs{}, usagef("--cost %q is no cost; write a number from 1 to %d, or uniform:1-100", text, limiter.MaxCount)
	}
	return loadgen.Costs{Least: low, Most: high}, nil
}

func parseDistribution(text string, subjects int) (loadgen.Distribution, error) {
	n := uint32(subjects)
	how, rest, _ := strings.Cut(text, ":")
	switch {
	case text == "uniform":
		return loadgen.Evenly(n), nil
	case text == "sequential":
		return loadgen.Sequential(n), nil
	case how == "zipf":
		if s, err := strconv.ParseFloat(rest, 64); err == nil && s > 0 && s <= 10 {
			return loadgen.Zipf(n, s), nil
		}
		return loadgen.Distribution{}, usagef("--distribution %q is no zipf; write zipf:S with S above 0 and at most 10, such as zipf:1.1", text)
	case how == "hot":
		share, few, found := strings.Cut(rest, "/")
		part, _, err := parseShare(share)
		hot, fewErr := strconv.Atoi(few)
		if !found || err != nil || fewErr != nil || hot < 1 || !(part > 0 && part <= 1) {
			return loadgen.Distribution{}, usagef("--distribution %q is no hot; write hot:SHARE/N, such as hot:90%%/3 for three keys that get nine tenths", text)
		}
		if hot > subjects {
			return loadgen.Distribution{}, usagef("--distribution %s has more hot keys than the %d there are; raise --keys", text, subjects)
		}
		return loadgen.Hot(n, uint32(hot), part), nil
	}
	return loadgen.Distribution{}, usagef("--distribution %q is unknown; it is uniform, zipf:S, hot:SHARE/N or sequential", text)
}

// parseCount reads a whole number within bounds; what says of what.
func parseCount(what, text string, least, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, usagef("%s=%s is out of range; it must be from %d to %d", what, text, least, most)
	}
	return n, nil
}

// load is the load of one run: a new one each time, since it is used up.
func (o *loadOptions) load(setting loadgen.Setting) loadgen.Load {
	switch {
	case o.closed:
		return nil
	case o.theScenario != nil:
		return o.theScenario.Load(setting)
	case o.burst > 0:
		return loadgen.NewLoad(loadgen.Bursts(o.burst, o.interval, o.duration), o.mix, o.seed)
	case o.arrivals == "poisson":
		return loadgen.NewLoad(loadgen.Poisson(o.parsed, o.seed), o.mix, o.seed)
	}
	return loadgen.NewLoad(loadgen.Uniform(o.parsed), o.mix, o.seed)
}

// averageRate is the requests asked for in a second, or 0 for a closed loop.
func (o *loadOptions) averageRate() float64 {
	if o.given("stages") {
		return loadgen.Total(o.parsed) / loadgen.Length(o.parsed).Seconds()
	}
	return o.rate
}

// inWords says what is sent, for a report.
func (o *loadOptions) inWords() string {
	var words []string
	switch {
	case o.closed:
		words = append(words, "closed loop of "+output.Plural(o.workers, "worker"))
	case o.theScenario != nil:
		words = append(words, o.theScenario.About)
	case o.burst > 0:
		words = append(words, fmt.Sprintf("bursts of %d every %s", o.burst, limiter.FormatPeriod(o.interval)))
	case o.given("stages"):
		words = append(words, "stages "+o.stages)
	default:
		words = append(words, fmt.Sprintf("%s/s", strconv.FormatFloat(o.rate, 'f', -1, 64)))
	}
	if o.arrivals == "poisson" {
		words[0] += " poisson"
	}
	over := "over " + output.Plural(o.keys, "key")
	if o.given("distribution") && o.distribution != "uniform" {
		over += " (" + o.distribution + ")"
	}
	words = append(words, over)
	if o.cost != "1" {
		words = append(words, "cost "+o.cost)
	}
	return strings.Join(words, ", ")
}

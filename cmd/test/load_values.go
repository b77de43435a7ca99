package test

import (
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/experiment"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// parseBursts reads "bursts:100/1s".
func parseBursts(text string) (size int, interval time.Duration, err error) {
	n, every, found := strings.Cut(strings.TrimPrefix(text, "bursts:"), "/")
	units, err := store.ParseNumber("N", n, 1, maxRate)
	interval, intervalErr := store.ParsePeriod(every)
	if !found || err != nil || intervalErr != nil || interval <= 0 {
		return 0, 0, cli.Usagef("--arrivals %q does not describe bursts; write bursts:N/INTERVAL, such as bursts:100/1s", text)
	}
	return int(units), interval, nil
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
			return nil, cli.Usagef("--stages: %q is not a stage; write DURATION:RATE, such as 30s:5000, with commas between stages", part)
		}
		durations, targets = append(durations, duration), append(targets, target)
	}
	stages := loadgen.Ramp(0, durations, targets)
	if loadgen.Total(stages) < 1 {
		return nil, cli.Usagef("--stages %s sends nothing; give a rate above 0", text)
	}
	return stages, nil
}

// parseCosts reads "5" or "uniform:1-100".
func parseCosts(text string) (loadgen.Costs, error) {
	least, most := text, text
	if span, is := strings.CutPrefix(text, "uniform:"); is {
		least, most, _ = strings.Cut(span, "-")
	}
	low, err := store.ParseNumber("cost", least, 1, store.MaxCount)
	high, highErr := store.ParseNumber("cost", most, 1, store.MaxCount)
	if err != nil || highErr != nil || high < low {
		return loadgen.Costs{}, cli.Usagef("--cost %q is not a cost; write a number from 1 to %d, or uniform:1-100", text, store.MaxCount)
	}
	return loadgen.Costs{Least: low, Most: high}, nil
}

// parseDistribution reads "uniform", "sequential", "zipf:1.1" or "hot:90%/3".
func parseDistribution(text string, subjects int) (d loadgen.Distribution, err error) {
	n := uint32(subjects)
	how, rest, _ := strings.Cut(text, ":")
	switch {
	case text == "uniform":
		return loadgen.Evenly(n), nil
	case text == "sequential":
		return loadgen.Sequential(n), nil
	case how == "zipf":
		if s, ok := parseDecimal(rest); ok && s > 0 && s <= 10 {
			return loadgen.Zipf(n, s), nil
		}
		return d, cli.Usagef("--distribution %q needs a number S above 0 and at most 10; write zipf:S, such as zipf:1.1", text)
	case how == "hot":
		share, few, found := strings.Cut(rest, "/")
		part, _, ok := cli.ParseShare(share)
		hot, err := store.ParseNumber("N", few, 1, store.MaxCount)
		if !found || !ok || err != nil || !(part > 0 && part <= 1) {
			return d, cli.Usagef("--distribution %q needs a share and a number of keys; write hot:SHARE/N, "+
				"such as hot:90%%/3 for three keys that get nine tenths", text)
		}
		if hot > int64(subjects) {
			return d, cli.Usagef("--distribution %s has more hot keys than the %d there are; raise --keys", text, subjects)
		}
		return loadgen.Hot(n, uint32(hot), part), nil
	}
	return d, cli.Usagef("--distribution %q is unknown; it is uniform, zipf:S, hot:SHARE/N or sequential", text)
}

// parseDecimal reads a number such as 0.5, 200 or 2k.
func parseDecimal(text string) (number float64, ok bool) {
	decimal, ok := store.ParseDecimal(text)
	if !ok {
		return 0, false
	}
	number, _ = decimal.Float64()
	return number, true
}

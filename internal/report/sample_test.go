package report

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/internal/hostiletext"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/loadgen"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// Pointer returns where a number is.
func Pointer(f float64) *float64 { return &f }

// measured records n latencies around a median, with a tail, and some that waited.
func measured(random *rand.Rand, n int, median float64, stalled int) *hdrhistogram.Histogram {
	h := hdrhistogram.New(1, time.Hour.Microseconds(), 3)
	for i := range n {
		value := median * math.Exp(random.NormFloat64()*0.45)
		if i < stalled {
			value += 1e6 * float64(i) / float64(stalled)
		}
		if err := h.RecordValue(max(1, int64(value))); err != nil {
			panic(err)
		}
	}
	return h
}

// LoadRun is half a minute at a thousand a second.
func LoadRun(algorithm string, seed uint64, worst float64, over int64) Run {
	random := rand.New(rand.NewPCG(seed, 1))
	stalled := 0
	if seed == 2 {
		stalled = 900
	}
	latency := measured(random, 30_000, 380+60*float64(seed), stalled)
	service := measured(random, 30_000, 300+60*float64(seed), 0)
	lag := measured(random, 30_000, 20, 0)
	run := Run{
		Algorithm: algorithm, Limit: algorithm + ":100/10s", Implementation: "script",
		Store: "redis://localhost:6379/0", Server: "Redis 7.0.15", Seed: &seed,
		Load: "1000/s poisson over 50 keys, zipf:1.2", Workers: 64, Rate: 1000,
		Result: loadgen.Result{
			StartedAt: time.Date(2026, 3, 1, 12, 0, int(seed)*40, 0, time.UTC), IntervalMS: 500,
			Requests: 30_000, Late: int64(stalled), LateAfterMS: 100, Keys: 50, DurationMS: 30_000,
			ThroughputPerS: 999.7,
			Latency:        loadgen.QuantilesOf(latency), Service: loadgen.QuantilesOf(service),
			Lag: loadgen.QuantilesOf(lag),
			Audit: loadgen.Audit{
				Totals: audit.Totals{WorstRatio: worst, WorstUnits: int64(100 * worst),
					OverAdmitted: min(over, 10)},
				LimitReached: Pointer(2.5),
				Fairness:     0.874,
			},
		},
	}
	for i := range int64(60) {
		asked := 500 + int64(random.NormFloat64()*18)
		interval := loadgen.Interval{
			OffsetMS: i * 500, Allowed: 150 + int64(random.IntN(30)), P50: 380 + int64(random.IntN(80)),
			P99: 1100 + int64(random.IntN(500)), Max: 1800 + int64(random.IntN(2500)),
		}
		if i%20 == 0 {
			interval.Allowed += 200
		}
		if stalled > 0 && i == 24 {
			interval.P50, interval.P99, interval.Max = 420_000, 990_000, 1_003_000
		}
		interval.Denied = asked - interval.Allowed
		run.Allowed += interval.Allowed
		run.Denied += interval.Denied
		run.Timeline = append(run.Timeline, interval)
	}
	run.Requests = run.Allowed + run.Denied
	run.Audit.Admitted = float64(run.Allowed)
	for i := range int64(50) {
		asked := int64(6000 / math.Pow(float64(i+1), 1.2))
		allowed := min(asked, 310-i)
		if asked > allowed {
			run.KeysDenied++
		}
		if i < 10 && asked > allowed {
			run.MostDenied = append(run.MostDenied, KeyCount{Key: fmt.Sprintf("user:%d", i+1), Allowed: allowed,
				Denied: asked - allowed})
		}
	}
	run.Limits = []loadgen.Limit{{Name: algorithm + "/10s", Algorithm: algorithm, Limit: run.Limit, Denied: run.Denied,
		Audit: run.Audit}}
	return run
}

// Promised judges a document by thresholds, and returns it.
func Promised(d *Document, texts ...string) *Document {
	var expressions []Expression
	for _, text := range texts {
		e, err := ParseThreshold(text)
		if err != nil {
			panic(err)
		}
		expressions = append(expressions, e)
	}
	if err := d.Evaluate(expressions); err != nil {
		panic(err)
	}
	return d
}

// OneRun is a load test of one limit.
func OneRun() *Document {
	d := New(LoadTest)
	d.Runs = []Run{LoadRun("token-bucket", 1, 1, 0)}
	return Promised(d, "p99<5ms", "over_admitted==0", "denied<50%")
}

// FiveRuns is a load test of each algorithm.
func FiveRuns() *Document {
	d := New(LoadTest)
	for i, algorithm := range []string{"token-bucket", "leaky-bucket", "fixed-window", "sliding-log",
		"sliding-counter"} {
		worst := 1.0
		if algorithm == "fixed-window" {
			worst = 1.97
		}
		if algorithm == "sliding-counter" {
			worst = 1.08
		}
		d.Runs = append(d.Runs, LoadRun(algorithm, uint64(i+1), worst, 0))
	}
	return Promised(d, "p99<5ms", "over_admitted==0")
}

// Racing is the naive implementation, with all that can go wrong with a run.
func Racing() *Document {
	d := New(LoadTest)
	run := LoadRun("token-bucket", 1, 1.31, 417)
	run.Implementation, run.GeneratorLimited, run.Dropped, run.Errors, run.Unknown = Naive, true, 1203, 312, 12
	run.Requests += run.Errors
	for i := 20; i < 26; i++ {
		run.Timeline[i].Errors, run.Timeline[i].Dropped = 52, 200
	}
	run.ErrorTexts = []loadgen.ErrorCount{{Text: "redis://localhost:6379 did not answer within 2s", Count: 300},
		{Text: "outcome unknown: connection reset by peer", Count: 12}}
	run.Warnings = []string{"the server's clock stepped back by 3 ms", "the bodies of 3 answers were longer than 1 MiB"}
	run.Limits = append(
		run.Limits,
		loadgen.Limit{
			Name: "hourly", Algorithm: "sliding-log", Limit: "sliding-log:1000/1h", Shadow: true, Denied: 77,
			Audit: loadgen.Audit{Totals: audit.Totals{WorstRatio: 0.42}},
		},
	)
	d.Runs, d.Interrupted = []Run{run}, true
	return d
}

// Simulation is one of two limits.
func Simulated() *Document {
	d := New(Simulation)
	for i, limit := range []string{"30/1m", "60/1m"} {
		random := rand.New(rand.NewPCG(uint64(i), 7))
		run := Run{
			Algorithm: "token-bucket", Limit: limit, Store: "memory:", Load: "10,000 lines of access.log by ip",
			Result: loadgen.Result{StartedAt: time.Date(2015, 5, 17, 10, 5, 3, 0, time.UTC),
				IntervalMS: time.Hour.Milliseconds(),
				Requests:   10_000, Keys: 1753, KeysDenied: int64(31 - 20*i),
				DurationMS: (83 * time.Hour).Milliseconds() + 1234,
				Audit: loadgen.Audit{Totals: audit.Totals{WorstRatio: 1, WorstUnits: 30 * int64(i+1)},
					Fairness: 0.31},
			},
		}
		for hour := range int64(84) {
			asked := 119 + int64(40*math.Sin(float64(hour)/4)) + int64(random.IntN(20))
			denied := max(0, asked-150) / int64(i+1)
			run.Timeline = append(run.Timeline, loadgen.Interval{OffsetMS: hour * run.IntervalMS,
				Allowed: asked - denied, Denied: denied})
			run.Allowed += asked - denied
			run.Denied += denied
		}
		run.Requests = run.Allowed + run.Denied
		for key := range 6 {
			run.MostDenied = append(
				run.MostDenied, KeyCount{Key: fmt.Sprintf("ip:203.0.113.%d", 9+key), Allowed: 60,
					Denied: int64(120 / (key + 1))},
			)
		}
		d.Runs = append(d.Runs, run)
	}
	return Promised(d, "denied_keys<1%")
}

func emptyRun() *Document {
	d := New(LoadTest)
	d.Runs = []Run{{Algorithm: "token-bucket", Limit: "token-bucket:10/1m", Store: "memory:",
		Load: "10/s uniform over 1 key",
		Rate: 10}}
	return Promised(d, "denied<1%")
}

// Fixtures are all of these documents, by name.
func Fixtures() map[string]*Document {
	texts := hostiletext.Texts()
	script := slices.Index(texts, "<script>alert(1)</script>")
	return map[string]*Document{
		"one": OneRun(), "five": FiveRuns(), "racing": Racing(), "simulation": Simulated(), "empty": emptyRun(),
		"hostile": stranger(texts[script : script+8]), "none": New(LoadTest),
	}
}

// small is a run as it fits a file that people read.
func small(seed uint64) Run {
	run := LoadRun("token-bucket", seed, 1, 0)
	run.IntervalMS = 5000
	var timeline []loadgen.Interval
	for _, i := range run.Timeline {
		if i.OffsetMS%run.IntervalMS == 0 {
			timeline = append(timeline, loadgen.Interval{OffsetMS: i.OffsetMS})
		}
		timeline[len(timeline)-1].Add(&i)
	}
	run.Timeline, run.MostDenied = timeline, run.MostDenied[:2]
	return run
}

// Saved are the files in testdata that commands are tried with.
func Saved() map[string]*Document {
	document := func(runs ...Run) *Document {
		d := New(LoadTest)
		d.Runs = runs
		return d
	}
	worse := small(7)
	worse.Audit.OverAdmitted, worse.Audit.WorstRatio, worse.Rate, worse.Load = 3, 1.03, 2000,
		"2000/s poisson over 50 keys, zipf:1.2"
	worse.Limits[0].Audit = worse.Audit
	for i := range worse.Timeline {
		interval := &worse.Timeline[i]
		interval.P50, interval.P99, interval.Max = 2*interval.P50, 2*interval.P99, 2*interval.Max
	}
	noisy := small(1)
	noisy.Latency.P99 += noisy.Latency.P99 / 20
	return map[string]*Document{
		"run.json":   Promised(document(small(1)), "p99<5ms", "over_admitted==0"),
		"base.json":  document(small(1)),
		"new.json":   document(noisy),
		"worse.json": document(worse),
	}
}

// Printed is what a terminal of some width shows of an answer; 0 is no terminal.
func Printed(a output.Answer, width int) string {
	var b bytes.Buffer
	a.Print(&output.Printer{Out: &b, Width: width})
	return b.String()
}

// stranger is a document that holds texts wherever there is text. It is read from a file, as those of others are.
func stranger(texts []string) *Document {
	d, usual := New(LoadTest), LoadRun("token-bucket", 1, 1, 0)
	for i, text := range texts {
		run := usual
		run.Algorithm, run.Limit, run.Policy, run.Implementation = text, text, text, text
		run.Store, run.Load, run.Scenario = text, text, text
		run.Limits = []loadgen.Limit{{Name: text, Algorithm: text, Limit: text}, {Name: text + "2", Limit: text}}
		run.MostDenied = []KeyCount{{Key: text, Denied: 2, Allowed: 1}}
		run.ErrorTexts, run.Warnings = []loadgen.ErrorCount{{Text: text, Count: 1}}, []string{text}
		run.Requests++
		run.Errors++
		d.Runs = append(d.Runs, run)
		d.Thresholds = append(d.Thresholds, Threshold{Expression: text, Actual: text, Run: i})
		d.Suggestions = append(d.Suggestions, Suggestion{Promise: text, Algorithm: text, Limit: text, Actual: text,
			Below: text, Kept: i%2 == 0})
	}
	data, err := d.Save()
	if err == nil {
		d, err = Read("x.json", data)
	}
	if err != nil {
		panic(err)
	}
	return d
}

// Strangers returns documents of all texts of strangers, with several runs and with one.
func Strangers() (all []*Document) {
	for texts := range slices.Chunk(hostiletext.Texts(), 8) {
		all = append(all, stranger(texts), stranger(texts[:1]))
	}
	return all
}

// Obeyed is a line of text in which something is not seen.
func Obeyed(text string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimLeft(line, "\t"); output.Escape(line) != line {
			return line
		}
	}
	return ""
}

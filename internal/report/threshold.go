package report

import (
	"cmp"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/texts"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Expression is a promise about a run that it keeps or not, such as "p99<5ms".
type Expression struct {
	text     string
	metric   *metric
	operator string
	bound    float64 // µs for a duration, a share of 1 for a percentage
	unit     string  // as written: "ms", "%" or ""
}

// String returns the expression as it was written, without spaces.
func (e Expression) String() string { return e.text }

// durationUnits are in microseconds.
var durationUnits = map[string]int64{"us": 1, "µs": 1, "μs": 1, "ms": 1000, "s": 1_000_000}

// form is a metric, an operator and a value with its unit.
var form = texts.Regexp(`^([^<>=!]*)(<=|>=|==|!=|<|>)(.*?)([%usmµμ]*)$`)

// ParseThreshold reads a promise: a metric, an operator and a value, such as
// "p99<5ms", "over_admitted==0" or "denied<1%". What is wrong with it is a
// [store.ErrInvalid].
func ParseThreshold(text string) (Expression, error) {
	e := Expression{text: strings.Join(strings.Fields(text), "")}
	parts := form().FindStringSubmatch(e.text)
	if parts == nil {
		return Expression{}, wrong(text,
			"write a metric, one of < <= > >= == != and a value, such as p99<5ms, over_admitted==0 "+
				"or denied<1%%")
	}
	name, value := parts[1], parts[3]+parts[4]
	e.operator, e.unit = parts[2], parts[4]
	if e.metric = metricNamed(name); e.metric == nil {
		return Expression{}, wrong(text,
			"unknown metric %q; write one such as p95, p99, service_p99, errors, denied, over_admitted, "+
				"lies or throughput", name)
	}
	bad := wrong(text, "%q is not a value of %s; write %s", value, name, e.metric.valueHint())
	if e.metric.unit == duration {
		period, err := store.ParsePeriod(value)
		if err != nil || parts[3] == "" {
			return Expression{}, bad
		}
		if durationUnits[e.unit] == 0 {
			e.unit = "s"
		}
		e.bound = float64(period) / 1000
		return e, nil
	}
	exact, ok := store.ParseDecimal(parts[3])
	switch {
	case !ok, e.unit != "" && (e.unit != "%" || e.metric.whole == nil), e.unit == "" && e.metric.unit == count &&
		!exact.IsInt():
		return Expression{}, bad
	case e.unit == "%":
		if exact.Quo(exact, big.NewRat(100, 1)); exact.Cmp(big.NewRat(1, 1)) > 0 {
			return Expression{}, wrong(text, "%q is not a percentage from 0%% to 100%%; write one such as 1%%", value)
		}
	}
	e.bound, _ = exact.Float64()
	return e, nil
}

func wrong(expression, format string, args ...any) error {
	return store.Invalidf("threshold %q: %s", expression, fmt.Sprintf(format, args...))
}

// Holds reports whether the figures keep the promise, and the metric's value in the
// expression's unit. It is a [store.ErrInvalid] if they have no such metric: a
// simulation has no latencies.
func (e Expression) Holds(r *Run) (ok bool, actual string, err error) {
	value, known := e.metric.of(r)
	if !known {
		return false, "", wrong(e.text, "the run has no %s", e.metric.name)
	}
	if e.unit == "%" { // a share of nothing stays 0
		value /= float64(max(e.metric.whole(r), 1))
	}
	return e.keeps(value), e.write(value), nil
}

// keeps reports whether a value keeps the promise.
func (e Expression) keeps(value float64) bool {
	return value < e.bound && strings.ContainsAny(e.operator, "<!") ||
		value > e.bound && strings.ContainsAny(e.operator, ">!") ||
		value == e.bound && e.operator != "!=" && strings.HasSuffix(e.operator, "=")
}

// write writes a value in the expression's unit, with as many digits as it takes
// to be seen on the side of the bound that it is on: not "1%" where "<=1%" is
// missed by a little, and not "0s" for a little time.
func (e Expression) write(value float64) string {
	unit := 1.0
	if factor, is := durationUnits[e.unit]; is {
		unit = float64(factor)
	} else if e.unit == "%" {
		unit = 0.01
	}
	text := ""
	for digits := 3; digits <= 12; digits++ {
		text = strconv.FormatFloat(value/unit, 'f', digits, 64)
		shown, _ := strconv.ParseFloat(text, 64)
		if cmp.Compare(shown, e.bound/unit) == cmp.Compare(value, e.bound) && (shown != 0 || value == 0) {
			break
		}
	}
	return strings.TrimRight(strings.TrimRight(text, "0"), ".") + e.unit
}

// Evaluate holds every run against every promise, in place of what the document had
// of thresholds before. Its errors are those of [Expression.Holds], but that a load test without any answer has missed
// what was promised of its times.
func (d *Document) Evaluate(expressions []Expression) error {
	thresholds := []Threshold{}
	for _, e := range expressions {
		for i := range d.Runs {
			r := &d.Runs[i]
			ok, actual, err := e.Holds(r)
			switch {
			case err == nil:
			case e.metric.times != nil && e.metric.times.optional && e.isBound():
				ok, actual = true, "none"
			case d.Kind == LoadTest && e.metric.unit == duration:
				ok, actual = false, "nothing was measured"
			default:
				return err
			}
			t := Threshold{Expression: e.text, Run: i, Actual: actual, OK: ok}
			if err == nil && e.metric.ofMachine && r.GeneratorLimited && !e.isMissedInService(r) &&
				!(ok && e.holdsAllTheSame(r)) {
				t.OK, t.NotJudged = false, "the load generator was the limit"
			}
			thresholds = append(thresholds, t)
		}
	}
	d.Thresholds = thresholds
	return nil
}

// holdsAllTheSame reports whether a promise that is kept although the load generator was late is kept without that
// delay, too: rates are at least so high, fewer are late, and a time from the planned instant has the delay in it.
// Requests that were dropped have no time.
func (e Expression) holdsAllTheSame(r *Run) bool {
	switch {
	case e.metric.unit == perSecond:
		return e.operator == ">" || e.operator == ">="
	case e.metric.times == nil:
		return e.isBound()
	}
	return e.metric.times.prefix == "" && e.isBound() && r.Dropped == 0
}

// isMissedInService reports whether the time of service alone is longer than was promised: that is not the load
// generator's doing.
func (e Expression) isMissedInService(r *Run) bool {
	if e.metric.service == nil || !e.isBound() {
		return false
	}
	served, known := e.metric.service(r)
	return known && !e.keeps(served)
}

// isBound reports whether the promise says how much there may be at most.
func (e Expression) isBound() bool {
	return e.operator == "<" || e.operator == "<=" || e.operator == "==" && e.bound == 0
}

// AppliesTo reports, as a [store.ErrInvalid], that runs of that kind do not have what
// the promise is about.
func (e Expression) AppliesTo(kind Kind) error {
	if kind == Simulation && e.metric.unit == duration {
		return wrong(e.text, "a simulation has no %s, since it measures no times", e.metric.name)
	}
	return nil
}

// IsAboutDenials reports whether the promise bounds how many requests or keys
// are denied.
func (e Expression) IsAboutDenials() bool {
	return (e.metric.name == "denied" || e.metric.name == "denied_keys") && (e.operator == "<" || e.operator == "<=")
}

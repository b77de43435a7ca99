package report

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Expression is a promise about a run that it keeps or not, such as "p99<5ms".
type Expression struct {
	text     string
	metric   *metric
	operator string
	bound    *big.Rat // µs for a duration, a share of 1 for a percentage
	unit     string   // as written: "ms", "%" or ""
}

// String returns the expression as it was written, without spaces.
func (e Expression) String() string { return e.text }

// operators come with the longest first, so that "<=" is not read as "<".
var operators = []string{"<=", ">=", "==", "!=", "<", ">"}

// durationUnits are in microseconds.
var durationUnits = map[string]int64{"us": 1, "µs": 1, "μs": 1, "ms": 1000, "s": 1_000_000}

// ParseThreshold reads a promise: a metric, an operator and a value, such as
// "p99<5ms", "over_admitted==0" or "denied<1%". What is wrong with it is a
// [store.ErrInvalid].
func ParseThreshold(text string) (Expression, error) {
	e := Expression{text: strings.Join(strings.Fields(text), "")}
	at := strings.IndexAny(e.text, "<>=!")
	if at >= 0 {
		for _, operator := range operators {
			if strings.HasPrefix(e.text[at:], operator) {
				e.operator = operator
				break
			}
		}
	}
	if e.operator == "" {
		return Expression{}, wrong(text, "write a metric, one of < <= > >= == != and a value, such as p99<5ms, over_admitted==0 "+
			"or denied<1%%")
	}
	name, value := e.text[:at], e.text[at+len(e.operator):]
	if e.metric = metricNamed(name); e.metric == nil {
		return Expression{}, wrong(text, "unknown metric %q; write one such as p95, p99, service_p99, errors, denied, over_admitted, "+
			"lies or throughput", name)
	}
	digits := strings.TrimRight(value, "%usmµμ")
	e.unit = value[len(digits):]
	if e.metric.kind == duration && strings.IndexAny(value, "0123456789") == 0 {
		if period, err := store.ParsePeriod(value); err == nil {
			if e.bound = big.NewRat(int64(period), 1000); durationUnits[e.unit] == 0 {
				e.unit = "s"
			}
			return e, nil
		}
	}
	var ok bool
	if e.bound, ok = store.ParseDecimal(digits); !ok {
		return Expression{}, wrong(text, "%q is not a value of %s; write %s", value, name, e.metric.valueHint())
	}
	switch {
	case e.metric.kind == duration:
		return Expression{}, wrong(text, "%q has no unit of time; write %s", value, e.metric.valueHint())
	case e.unit == "%" && e.metric.whole != nil:
		if e.bound.Quo(e.bound, new(big.Rat).SetInt64(100)); e.bound.Cmp(big.NewRat(1, 1)) > 0 {
			return Expression{}, wrong(text, "%q is not a percentage from 0%% to 100%%; write one such as 1%%", value)
		}
	case e.unit != "":
		return Expression{}, wrong(text, "%s is not in %q; write %s", name, e.unit, e.metric.valueHint())
	case e.metric.kind == count && !e.bound.IsInt():
		return Expression{}, wrong(text, "%s is a whole number and never %s; write %s", name, digits, e.metric.valueHint())
	}
	return e, nil
}

func wrong(expression, format string, args ...any) error {
	return store.Invalidf("threshold %q: %s", expression, fmt.Sprintf(format, args...))
}

// Holds reports whether the figures keep the promise, and the metric's value in the
// expression's unit. It is a [store.ErrInvalid] if they have no such metric: a
// simulation has no latencies.
func (e Expression) Holds(f *Figures) (ok bool, actual string, err error) {
	value := e.value(f)
	if value == nil {
		return false, "", wrong(e.text, "the run has no %s: %s", e.metric.name, e.metric.absence())
	}
	return e.compare(value), e.write(value), nil
}

// value returns the metric as the bound is written: in µs, as a share of 1, or as a
// count. It is nil if the figures have no such metric.
func (e Expression) value(f *Figures) *big.Rat {
	value := e.metric.of(f)
	if value == nil || e.unit != "%" {
		return value
	}
	if whole := e.metric.whole(f); whole > 0 { // a share of nothing stays 0
		value.Quo(value, new(big.Rat).SetInt64(whole))
	}
	return value
}

// Lost reports whether one of the promises is broken by the figures of a run under way,
// and stays broken however the run goes on. It is quick enough to be asked often.
func Lost(promises []Expression, f *Figures) bool {
	return slices.ContainsFunc(promises, func(e Expression) bool {
		if !e.isBound() || f.GeneratorLimited && e.metric.ofMachine {
			return false
		}
		value := e.value(f)
		return value != nil && !e.compare(value)
	})
}

// compare reports whether a value keeps the promise.
func (e Expression) compare(value *big.Rat) bool {
	order := value.Cmp(e.bound)
	switch e.operator {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case ">=":
		return order >= 0
	case "!=":
		return order != 0
	}
	return order == 0
}

// write writes a value in the expression's unit, with as many digits as it takes
// to be seen on the side of the bound that it is on: not "1%" where "<=1%" is
// missed by a little, and not "0s" for a little time.
func (e Expression) write(value *big.Rat) string {
	unit := big.NewRat(1, 1)
	if factor, is := durationUnits[e.unit]; is {
		unit.SetInt64(factor)
	} else if e.unit == "%" {
		unit.SetFrac64(1, 100)
	}
	inUnit := new(big.Rat).Quo(value, unit)
	const least, most = 3, 12
	text := ""
	for digits := least; digits <= most; digits++ {
		text = inUnit.FloatString(digits)
		shown, _ := new(big.Rat).SetString(text)
		if shown.Mul(shown, unit).Cmp(e.bound) == value.Cmp(e.bound) && (shown.Sign() != 0 || value.Sign() == 0) {
			break
		}
	}
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + e.unit
}

// Evaluate holds every run against every promise, in place of what the document had
// of thresholds before, and reports whether all were kept. Its errors are those of
// [Expression.Holds], but that a load test without any answer has missed what was
// promised of its times.
func (d *Document) Evaluate(expressions []Expression) (held bool, err error) {
	held = true
	thresholds := []Threshold{}
	for _, e := range expressions {
		for i := range d.Runs {
			ok, actual, err := e.Holds(&d.Runs[i].Figures)
			switch {
			case err != nil && e.metric.optional && e.isBound():
				ok, actual = true, "none"
			case err != nil && d.Kind == LoadTest && e.metric.kind == duration:
				ok, actual = false, "nothing was measured"
			case err != nil:
				return false, err
			}
			t := Threshold{Expression: e.text, Run: i, Actual: actual, OK: ok}
			if err == nil && e.metric.ofMachine && d.Runs[i].GeneratorLimited {
				t.OK, t.NotJudged = false, "the load generator was the limit"
			}
			held = held && t.OK
			thresholds = append(thresholds, t)
		}
	}
	d.Thresholds = thresholds
	return held, nil
}

// ratOf is a number as it is written in JSON, so that what reads 1.97 is 1.97.
func ratOf(f float64) *big.Rat {
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'f', -1, 64))
	if !ok { // not a number
		return nil
	}
	return r
}

// isBound reports whether the promise says how much there may be at most. Once it is
// broken it is taken to stay broken, since most figures only grow.
func (e Expression) isBound() bool {
	return e.operator == "<" || e.operator == "<=" || e.operator == "==" && e.bound.Sign() == 0
}

// AppliesTo reports, as a [store.ErrInvalid], that runs of that kind do not have what
// the promise is about.
func (e Expression) AppliesTo(kind Kind) error {
	if kind == Simulation && e.metric.kind == duration {
		return wrong(e.text, "a simulation has no %s: %s", e.metric.name, e.metric.absence())
	}
	return nil
}

// Missed reports whether any run missed any threshold.
func (d *Document) Missed() bool {
	return slices.ContainsFunc(d.Thresholds, func(t Threshold) bool { return t.IsMissed() })
}

// IsAboutDenials reports whether the promise bounds how many requests or keys
// are denied.
func (e Expression) IsAboutDenials() bool {
	return (e.metric.name == "denied" || e.metric.name == "denied_keys") && (e.operator == "<" || e.operator == "<=")
}

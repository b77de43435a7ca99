package report

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
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
	if plain := strings.NewReplacer("(", "", ")", "").Replace(name); plain != name && metricNamed(plain) != nil { // as k6 has it
		return Expression{}, wrong(text, "write it as %s", plain+e.operator+value+"ms")
	}
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
	case e.unit != "", e.metric.kind == count && !e.bound.IsInt():
		return Expression{}, wrong(text, "%q is not a value of %s; write %s", value, name, e.metric.valueHint())
	}
	return e, nil
}

func wrong(expression, format string, args ...any) error {
	return store.Invalidf("threshold %q: %s", expression, fmt.Sprintf(format, args...))
}

// Holds reports whether the figures keep the promise, and the metric's value in the
// expression's unit. It is a [store.ErrInvalid] if they have no such metric: a
// simulation has no latencies.
func (e Expression) Holds(r *Run) (ok bool, actual string, err error) {
	value := e.value(r)
	if value == nil {
		return false, "", wrong(e.text, "the run has no %s", e.metric.name)
	}
	return e.compare(value), e.write(value), nil
}

// value returns the metric as the bound is written: in µs, as a share of 1, or as a
// count. It is nil if the figures have no such metric.
func (e Expression) value(r *Run) *big.Rat {
	value := e.metric.of(r)
	if value == nil || e.unit != "%" {
		return value
	}
	if whole := e.metric.whole(r); whole > 0 { // a share of nothing stays 0
		value.Quo(value, new(big.Rat).SetInt64(whole))
	}
	return value
}

// Lost reports whether one of the promises is broken by the figures of a run under way,
// and stays broken however the run goes on. It is quick enough to be asked often.
func Lost(promises []Expression, r *Run) bool {
	return slices.ContainsFunc(promises, func(e Expression) bool {
		if !e.isBound() || r.GeneratorLimited && e.metric.ofMachine && !e.isMissedInService(r) {
			return false
		}
		value := e.value(r)
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
			ok, actual, err := e.Holds(&d.Runs[i])
			switch {
			case err != nil && e.metric.optional && e.isBound():
				ok, actual = true, "none"
			case err != nil && d.Kind == LoadTest && e.metric.kind == duration:
				ok, actual = false, "nothing was measured"
			case err != nil:
				return false, err
			}
			t := Threshold{Expression: e.text, Run: i, Actual: actual, OK: ok}
			late := err == nil && e.metric.ofMachine && d.Runs[i].GeneratorLimited
			if late && !e.isMissedInService(&d.Runs[i]) && !(ok && e.isKeptInSpiteOfDelay(&d.Runs[i])) {
				t.OK, t.NotJudged = false, "the load generator was the limit"
			}
			held = held && t.OK
			thresholds = append(thresholds, t)
		}
	}
	d.Thresholds = thresholds
	return held, nil
}

// isKeptInSpiteOfDelay reports whether a promise that is kept although the load generator was late is kept all the same: a time
// from the instant that was planned has the delay in it. Requests that were dropped have no time.
func (e Expression) isKeptInSpiteOfDelay(r *Run) bool {
	return e.metric.withDelay && e.isBound() && r.Dropped == 0
}

// isMissedInService reports whether the time of service alone is longer than was promised: that is not the load generator's doing.
func (e Expression) isMissedInService(r *Run) bool {
	if e.metric.service == nil || !e.isBound() {
		return false
	}
	served := e.metric.service(r)
	return served != nil && !e.compare(served)
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
		return wrong(e.text, "a simulation has no %s, since it measures no times", e.metric.name)
	}
	return nil
}

// IsAboutDenials reports whether the promise bounds how many requests or keys
// are denied.
func (e Expression) IsAboutDenials() bool {
	return (e.metric.name == "denied" || e.metric.name == "denied_keys") && (e.operator == "<" || e.operator == "<=")
}

// metricKind is how a metric's values are written.
type metricKind int

const (
	number   metricKind = iota // a decimal
	count                      // a whole number
	duration                   // a decimal and a unit of time
)

// metric is one figure of a run that can be promised.
type metric struct {
	name string
	kind metricKind
	// of returns the figure, of a duration in µs; nil if the run has none.
	of func(*Run) *big.Rat
	// optional: a run may well have nothing that the figure is of, and then keeps what is
	// promised of it at most.
	optional bool
	// whole is what a percentage of the figure is of; nil if it is of nothing.
	whole func(*Run) int64
	// service returns, of a time that a load generator makes longer by its delay, what is not delay; nil if there is no such part.
	service func(*Run) *big.Rat
	// withDelay: the figure is a time from the instant that was planned.
	withDelay bool
	// ofMachine: a load generator that was the limit decides the figure, so that no promise of it is judged then.
	ofMachine bool
}

// metrics is all that can be promised, in the order in which it is listed.
var metrics = sync.OnceValue(allMetrics)

func allMetrics() []metric {
	serviceOf := func(r *Run) *loadgen.Quantiles { return r.Service }
	allowedOf := func(r *Run) *loadgen.Quantiles { return r.AllowedService }
	deniedOf := func(r *Run) *loadgen.Quantiles { return r.DeniedService }
	var all []metric
	for _, times := range []struct {
		prefix   string
		optional bool
		of       func(*Run) *loadgen.Quantiles
		service  func(*Run) *loadgen.Quantiles
	}{
		{"", false, func(r *Run) *loadgen.Quantiles { return r.Latency }, serviceOf},
		{"service_", false, serviceOf, serviceOf},
		{"allowed_", true, allowedOf, allowedOf},
		{"denied_", true, deniedOf, deniedOf},
		{"lag_", false, func(r *Run) *loadgen.Quantiles { return r.Lag }, nil},
		{"error_", true, func(r *Run) *loadgen.Quantiles { return r.ErrorLatency }, nil},
	} {
		for _, figure := range timeFigures() {
			in := func(of func(*Run) *loadgen.Quantiles) func(*Run) *big.Rat {
				return func(r *Run) *big.Rat {
					if us, known := figure.Known(of(r)); known {
						return new(big.Rat).SetInt64(us)
					}
					return nil
				}
			}
			m := metric{name: times.prefix + figure.Name, kind: duration, optional: times.optional, ofMachine: true, of: in(times.of),
				withDelay: times.prefix == ""}
			if times.service != nil {
				m.service = in(times.service)
			}
			all = append(all, m)
		}
	}
	requests := func(r *Run) int64 { return r.Requests }
	arrivals := func(r *Run) int64 { return r.Requests + r.Dropped }
	keys := func(r *Run) int64 { return r.Keys }
	for _, counted := range []struct {
		name  string
		of    func(*Run) int64
		whole func(*Run) int64
	}{
		{"requests", requests, nil},
		{"allowed", func(r *Run) int64 { return r.Allowed }, requests},
		{"denied", func(r *Run) int64 { return r.Denied }, requests},
		{"errors", func(r *Run) int64 { return r.Errors }, requests},
		{"timed_out", func(r *Run) int64 { return r.TimedOut }, requests},
		{"unknown", func(r *Run) int64 { return r.Unknown }, requests},
		{"late", func(r *Run) int64 { return r.Late }, requests},
		{"dropped", func(r *Run) int64 { return r.Dropped }, arrivals},
		{"keys", keys, nil},
		{"denied_keys", func(r *Run) int64 { return r.KeysDenied }, keys},
		{"over_admitted", func(r *Run) int64 { return r.Audit.OverAdmitted }, nil},
		{"under_admitted", func(r *Run) int64 { return r.Audit.UnderAdmitted }, nil},
		{"least_over_admitted", func(r *Run) int64 { return r.Audit.LeastOver }, nil},
		{"least_under_admitted", func(r *Run) int64 { return r.Audit.LeastUnder }, nil},
		{"longest_denial_run", func(r *Run) int64 { return r.Audit.LongestDenialRun }, nil},
		{"worst_window_units", func(r *Run) int64 { return r.Audit.WorstUnits }, nil},
	} {
		all = append(all, metric{name: counted.name, kind: count, whole: counted.whole, ofMachine: counted.name == "late",
			of: func(r *Run) *big.Rat { return new(big.Rat).SetInt64(counted.of(r)) }})
	}
	for _, figure := range []struct {
		name string
		of   func(*Run) float64
	}{
		{"worst_window_ratio", func(r *Run) float64 { return r.Audit.WorstRatio }},
		{"throughput", func(r *Run) float64 { return r.ThroughputPerS }},
	} {
		all = append(all, metric{name: figure.name, ofMachine: figure.name == "throughput", of: func(r *Run) *big.Rat {
			return ratOf(figure.of(r))
		}})
	}
	all = append(all,
		metric{name: "lies", kind: count, of: func(r *Run) *big.Rat {
			if r.Audit.Lies == nil {
				return nil
			}
			return new(big.Rat).SetInt64(r.Audit.Lies.Wrong)
		}},
		metric{name: "clock_drift", of: func(r *Run) *big.Rat {
			if r.Clock == nil || r.Clock.Held == 0 {
				return nil
			}
			return ratOf(math.Abs(r.Clock.Drift))
		}},
		metric{name: "limit_reached", of: func(r *Run) *big.Rat {
			if r.Audit.LimitReached == nil {
				return nil
			}
			return ratOf(*r.Audit.LimitReached)
		}},
		metric{name: "fairness", of: func(r *Run) *big.Rat {
			return ratOf(r.Audit.Fairness)
		}},
		metric{name: "rate", ofMachine: true, of: func(r *Run) *big.Rat {
			if r.CountedMS() <= 0 {
				return new(big.Rat)
			}
			return big.NewRat(1000*r.Requests, r.CountedMS())
		}})
	for _, cost := range Costs {
		all = append(all, metric{name: cost.Name, of: func(r *Run) *big.Rat {
			if r.Cost == nil || cost.Of(r.Cost) == nil {
				return nil
			}
			return ratOf(*cost.Of(r.Cost))
		}})
	}
	return all
}

// Costs are the figures of a Cost, by the names that they have in JSON.
var Costs = []struct {
	Name  string
	Unit  string // of the figure
	Words string // what the figure is of, after it
	Of    func(*Cost) *float64
}{
	{"server_cpu_us", "µs", "of the server", func(c *Cost) *float64 { return c.ServerCPU }},
	{"client_cpu_us", "µs", "of the client", func(c *Cost) *float64 { return c.ClientCPU }},
	{"round_trips", "", "round trips", func(c *Cost) *float64 { return c.RoundTrips }},
	{"commands", "", "commands", func(c *Cost) *float64 { return c.Commands }},
	{"network_in_bytes", "B", "to the server", func(c *Cost) *float64 { return c.NetworkIn }},
	{"network_out_bytes", "B", "from it", func(c *Cost) *float64 { return c.NetworkOut }},
	{"bytes_per_key", "B", "of memory per key", func(c *Cost) *float64 { return c.BytesPerKey }},
	{"bytes_per_unit", "B", "per logged unit", func(c *Cost) *float64 { return c.BytesPerUnit }},
}

// Value returns the figure that has a name in thresholds, of a duration in µs, if the run has it.
func (r *Run) Value(name string) (value float64, known bool) {
	if figure := metricNamed(name).of(r); figure != nil {
		value, _ = figure.Float64()
		return value, true
	}
	return 0, false
}

func metricNamed(name string) *metric {
	all := metrics()
	for i := range all {
		if all[i].name == name {
			return &all[i]
		}
	}
	return nil
}

// valueHint says how the metric's values are written.
func (m *metric) valueHint() string {
	switch {
	case m.kind == duration:
		return "a time in us, ms or s, such as 5ms"
	case m.whole != nil:
		return "a whole number such as 100, or a percentage such as 1%"
	case m.kind == count:
		return "a whole number such as 100"
	}
	return "a number such as 1.5"
}

package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// Bounds of a saved report, beyond all that a command saves, so that any file
// is read in bounded memory. A month's load test has 2 MB, an hour's 50 KB.
const (
	// MaxSize is how many bytes a report has.
	MaxSize = 16 << 20
	maxRuns = 10_000
	// maxRunValues is how many values a run has, and maxValues the whole report.
	maxRunValues = 200_000
	maxValues    = 2_000_000
)

// errTooMuch is about a report that holds more than any that a command saves.
var errTooMuch = errors.New("it holds more than any report")

// Save returns the document as a file, for [Read].
func (d *Document) Save() ([]byte, error) {
	d.Judge()
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // thresholds have < and > in them
	encoder.SetIndent("", "  ")
	err := encoder.Encode(d)
	if err == nil && (b.Len() > MaxSize || len(d.Runs) > maxRuns) {
		err = fmt.Errorf("%d runs of %d MB could not be read again; try fewer limits at once", len(d.Runs), b.Len()>>20)
	}
	return b.Bytes(), err
}

// Read reads a document that was saved or printed as JSON; name is what messages
// call it. What is wrong with it is a [store.ErrInvalid].
func Read(name string, data []byte) (*Document, error) {
	d, err := read(data)
	if err != nil { // what is wrong can be a number of a million digits
		return nil, store.Invalidf("%s is not a report: %.200s; give one that loadtest or simulate saved", name,
			err.Error())
	}
	return d, nil
}

func read(data []byte) (*Document, error) {
	if len(data) > MaxSize || bytes.Count(data, []byte{','}) > maxValues {
		return nil, errTooMuch
	}
	type document Document // without its own runs
	var file struct {
		document
		Runs []json.RawMessage `json:"runs"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	d := (*Document)(&file.document)
	switch {
	case d.SchemaVersion == 0, file.Runs == nil, d.Kind != LoadTest && d.Kind != Simulation:
		return nil, errors.New("it has no schema_version, kind or runs")
	case d.SchemaVersion != output.SchemaVersion:
		return nil, fmt.Errorf("it has schema_version %d, and this limitctl reads %d", d.SchemaVersion,
			output.SchemaVersion)
	case len(file.Runs) > maxRuns:
		return nil, errTooMuch
	case d.mayFail() < 0 || d.mayFail() > 1:
		return nil, fmt.Errorf("max_errors %v is not a share of requests", *d.MaxErrors)
	}
	d.Verdict, d.Passed, d.Reasons, d.Runs = "", false, nil, make([]Run, len(file.Runs))
	for i, text := range file.Runs {
		if bytes.Count(text, []byte{','}) > maxRunValues {
			return nil, errTooMuch
		}
		r := &d.Runs[i]
		err := json.Unmarshal(text, r)
		if err == nil {
			err = r.check()
		}
		if err != nil {
			return nil, fmt.Errorf("run %d is damaged: %w", i+1, err)
		}
	}
	for _, t := range d.Thresholds {
		if t.Run < 0 || t.Run >= len(d.Runs) {
			return nil, fmt.Errorf("threshold %q is about run %d, and there are %d", t.Expression, t.Run, len(d.Runs))
		}
	}
	if d.Thresholds == nil {
		d.Thresholds = []Threshold{}
	}
	return d, nil
}

// mostOfAnything bounds the numbers in a file, so that no computation with them overflows, and mostListed the lists of
// a run but its timeline.
const (
	mostOfAnything = 1_000_000_000_000_000
	mostListed     = 1000
)

// check reports what is impossible in a run that was read from a file.
func (r *Run) check() error {
	for i := range r.Timeline {
		if r.IntervalMS <= 0 || i > 0 && r.Timeline[i].OffsetMS <= r.Timeline[i-1].OffsetMS {
			return errors.New("its timeline is not in order of time")
		}
	}
	if err := checkNumbers(reflect.ValueOf(r), false); err != nil {
		return err
	}
	if answers := r.Allowed + r.Denied + r.Errors; answers > r.Requests || r.KeysDenied > r.Keys {
		return fmt.Errorf("%d requests had %d answers, and of %d keys %d were denied", r.Requests, answers, r.Keys,
			r.KeysDenied)
	}
	return nil
}

// checkNumbers reports a number that is out of range in a part of a run, or a list that is too long.
// Numbers are not negative, unless their field has the tag range.
func checkNumbers(v reflect.Value, signed bool) error {
	switch {
	case v.CanInt():
		if n := v.Int(); n < 0 || n > mostOfAnything {
			return fmt.Errorf("%d is out of range", n)
		}
	case v.CanFloat():
		if f := v.Float(); f < 0 && !signed || math.Abs(f) > mostOfAnything {
			return fmt.Errorf("%v is out of range", f)
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return checkNumbers(v.Elem(), false)
	case v.Kind() == reflect.Slice:
		if v.Len() > mostListed && v.Type() != reflect.TypeFor[[]loadgen.Interval]() {
			return errTooMuch
		}
		for i := range v.Len() {
			if err := checkNumbers(v.Index(i), false); err != nil {
				return err
			}
		}
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		for i := range v.NumField() {
			if err := checkNumbers(v.Field(i), v.Type().Field(i).Tag.Get("range") == "signed"); err != nil {
				return err
			}
		}
	}
	return nil
}

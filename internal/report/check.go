package report

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
)

// Bounds of the numbers in a file, so that no computation with them overflows.
const (
	mostOfAnything = 1_000_000_000_000_000
	mostMS         = 4_000_000_000_000 // a century, and it fits a time.Duration
)

// Bounds of the lists of a run.
const (
	mostLimits = 64
	mostListed = 1000
)

// UnmarshalJSON refuses more limits than any run has before there is memory taken for them.
func (l *Limits) UnmarshalJSON(data []byte) error {
	limits, err := elements[Limit](data, mostLimits, nil)
	*l = limits
	return err
}

// errTooMuch is about lists of a run that are longer than any.
var errTooMuch = errors.New("it holds more than any run")

// check reports what is impossible in a run that was read from a file.
func (r *Run) check() error {
	for i := range r.Timeline {
		if r.IntervalMS <= 0 || i > 0 && r.Timeline[i].OffsetMS <= r.Timeline[i-1].OffsetMS {
			return errors.New("its timeline is not in order of time")
		}
	}
	if err := checkNumbers(reflect.ValueOf(r)); err != nil {
		return err
	}
	if answers := r.Allowed + r.Denied + r.Errors; answers > r.Requests {
		return fmt.Errorf("%d requests had %d answers", r.Requests, answers)
	}
	if r.KeysDenied > r.Keys {
		return fmt.Errorf("of %d keys %d were denied", r.Keys, r.KeysDenied)
	}
	return nil
}

// checkNumbers reports a number that is out of range in a part of a run, or a list that is too long.
// Numbers are not negative, unless their field has the tag range.
func checkNumbers(v reflect.Value) error {
	switch {
	case v.CanInt():
		if n := v.Int(); n < 0 || n > mostOfAnything {
			return fmt.Errorf("%d is out of range for a count or a time", n)
		}
	case v.CanFloat():
		if f := v.Float(); f < 0 || f > mostOfAnything {
			return fmt.Errorf("%v is out of range", f)
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return checkNumbers(v.Elem())
	case v.Kind() == reflect.Slice:
		if v.Len() > mostListed && v.Type() != reflect.TypeFor[[]Interval]() {
			return errTooMuch
		}
		for i := range v.Len() {
			if err := checkNumbers(v.Index(i)); err != nil {
				return err
			}
		}
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[Histograms]() && v.Type() != reflect.TypeFor[time.Time]():
		return checkFields(v)
	}
	return nil
}

func checkFields(v reflect.Value) error {
	for i := range v.NumField() {
		value, field := v.Field(i), v.Type().Field(i)
		isMS := value.CanInt() && strings.HasSuffix(field.Name, "MS")
		switch limits := field.Tag.Get("range"); {
		case isMS && (value.Int() < 0 || value.Int() > mostMS):
			return fmt.Errorf("%d ms is out of range for a time", value.Int())
		case limits == "signed":
			value = reflect.ValueOf(math.Abs(value.Float()))
		}
		if err := checkNumbers(value); err != nil {
			return err
		}
	}
	return nil
}

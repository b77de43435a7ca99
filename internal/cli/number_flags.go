package cli

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// NumberFlag adds a flag with a number as [store.ParseNumber] reads it. shorthand may be empty.
func NumberFlag[T int | int64 | uint64](f *pflag.FlagSet, to *T, name, shorthand string, otherwise T, usage string) {
	*to = otherwise
	f.VarP(&value[T]{"number", to, func(text string) (T, error) {
		n, err := store.ParseNumber("--"+name, text, math.MinInt64, math.MaxInt64)
		if err == nil && (T(n) < 0) != (n < 0) {
			err = fmt.Errorf("--%s %s is out of range", name, text)
		}
		return T(n), err
	}, func(n T) string { return fmt.Sprint(n) }}, name, shorthand, usage)
}

// DecimalFlag adds a flag with a number as [store.ParseDecimal] reads it.
func DecimalFlag(f *pflag.FlagSet, to *float64, name, shorthand, usage string) {
	f.VarP(&value[float64]{"decimal", to, func(text string) (float64, error) {
		number, ok := store.ParseDecimal(text)
		if !ok {
			return 0, fmt.Errorf("--%s %q is not a number, such as 0.5, 200 or 2k", name, text)
		}
		decimal, _ := number.Float64()
		return decimal, nil
	}, func(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }}, name, shorthand, usage)
}

// DurationFlag adds a flag with a duration as [store.ParsePeriod] reads it.
func DurationFlag(f *pflag.FlagSet, to *time.Duration, name, shorthand string, otherwise time.Duration, usage string) {
	*to = otherwise
	f.VarP(&value[time.Duration]{"period", to, func(text string) (time.Duration, error) {
		d, err := store.ParsePeriod(text)
		if err != nil {
			err = fmt.Errorf("--%s %q is not a duration; write it like 500ms, 2s, 1m or 1d", name, text)
		}
		return d, err
	}, time.Duration.String}, name, shorthand, usage)
}

// value is a flag's value. It implements pflag.Value.
type value[T any] struct {
	kind  string
	to    *T
	parse func(text string) (T, error)
	write func(T) string
}

func (v *value[T]) Set(text string) error {
	parsed, err := v.parse(text)
	if err == nil {
		*v.to = parsed
	}
	return err
}

func (v *value[T]) String() string { return v.write(*v.to) }

func (v *value[T]) Type() string { return v.kind }

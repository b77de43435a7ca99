// Package figures writes numbers, times and limits in a few columns, and keeps what they were over the last seconds.
package figures

import (
	"fmt"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Short writes a number in five columns or less.
func Short(n float64) string {
	switch {
	case n < 0.05:
		return "0"
	case n < 9.95:
		return fmt.Sprintf("%.1f", n)
	case n < 9999.5:
		return fmt.Sprintf("%.0f", n)
	case n < 99_950:
		return fmt.Sprintf("%.1fk", n/1e3)
	case n < 999_500:
		return fmt.Sprintf("%.0fk", n/1e3)
	case n < 99_950_000:
		return fmt.Sprintf("%.1fM", n/1e6)
	case n < 999_500_000:
		return fmt.Sprintf("%.0fM", n/1e6)
	}
	return fmt.Sprintf("%.1fG", n/1e9)
}

// Seconds writes a duration in seven columns or less, rounded up.
func Seconds(d time.Duration) string {
	switch {
	case d <= 0:
		return "-"
	case d < 10*time.Second:
		return output.Duration(RoundUp(d, 100*time.Millisecond))
	case d > 24*time.Hour:
		return output.Duration(RoundUp(d, time.Hour))
	}
	return output.Duration(RoundUp(d, time.Second))
}

// RoundUp is the next multiple of to.
func RoundUp(d, to time.Duration) time.Duration { return (d + to - 1) / to * to }

// LimitWords says a limit in words.
func LimitWords(l store.Limit) string {
	period := l.PeriodText()
	text := fmt.Sprintf("at most %s in %s", output.Thousands(l.Count), period)
	if unit, is := map[string]string{"1s": "a second", "1m": "a minute", "1h": "an hour", "1d": "a day"}[period]; is {
		text = fmt.Sprintf("at most %s %s", output.Thousands(l.Count), unit)
	}
	switch l.Algorithm {
	case store.TokenBucket:
		return fmt.Sprintf("%s, refilled steadily, %s at once", text, output.Thousands(l.Capacity()))
	case store.LeakyBucket:
		return fmt.Sprintf("%s, evenly spaced, %s waiting", text, output.Thousands(l.Capacity()))
	case store.FixedWindow:
		if l.Calendar != nil {
			return text + ", counted from 0 in each window of a calendar"
		}
		return text + ", counted from 0 in each window"
	case store.SlidingLog:
		return text + ", in any such time, exactly"
	case store.SlidingCounter:
		if l.Slices > 1 {
			slice := store.FormatPeriod(l.Period / time.Duration(l.Slices))
			return fmt.Sprintf("%s, in any such time, give or take a slice of %s", text, slice)
		}
		return text + ", in any such time, approximately"
	}
	return text
}

package report

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/output"
)

func units(n int64) string    { return plural(n, "unit") }
func requests(n int64) string { return plural(n, "request") }

// plural writes a count with thousands separators and its noun: "1,234 keys".
func plural(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return output.Thousands(n) + " " + noun
}

// share writes part of whole as a percentage. "0%" means nothing at all, and "100%"
// everything.
func share(part, whole int64) string {
	if whole == 0 {
		return "-"
	}
	percent := 100 * float64(part) / float64(whole)
	digits := 0
	if percent < 10 || percent > 99 {
		digits = 1
	}
	text := strconv.FormatFloat(percent, 'f', digits, 64)
	switch {
	case part == 0:
		return "0%"
	case part == whole:
		return "100%"
	case text == "0.0":
		return "<0.1%"
	case text == "100.0":
		return ">99.9%"
	}
	return text + "%"
}

// ratio writes a multiple of the limit: "1.97 ×". "1.00 ×" means exactly the limit.
func ratio(f float64) string {
	if 0 < f && f < 0.005 {
		return "<0.01 ×"
	}
	text := ""
	for digits := 2; digits <= 9; digits++ {
		text = strconv.FormatFloat(f, 'f', digits, 64)
		if shown, err := strconv.ParseFloat(text, 64); err != nil || f == 1 || shown != 1 {
			break
		}
	}
	return text + " ×"
}

// micros writes microseconds with three digits, in a fitting unit: "840 µs", "1.24 ms",
// "12 s".
func micros(us int64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%d µs", us)
	case us < 999_500:
		return decimal(float64(us)/1000) + " ms"
	}
	return decimal(float64(us)/1e6) + " s"
}

// decimal writes a figure with three digits, or with all digits before its point.
func decimal(f float64) string {
	switch size := math.Abs(f); {
	case math.IsNaN(f), math.IsInf(f, 0):
		return "-"
	case size >= 99.95:
		return output.Thousands(int64(math.Round(f)))
	case size >= 9.995:
		return output.Decimals(f, 1)
	case size >= 0.0995:
		return output.Decimals(f, 2)
	}
	return output.Decimals(f, 3)
}

// perSecond writes a rate.
func perSecond(f float64) string { return decimal(f) + "/s" }

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

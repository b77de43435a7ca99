package output

import (
	"fmt"
	"math"
	"strconv"
)

// Count writes a count with thousands separators and its noun: "1,234 keys".
func Count(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return Thousands(n) + " " + noun
}

// Share writes part of whole as a percentage. "0%" means nothing at all, and "100%"
// everything.
func Share(part, whole int64) string {
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

// Ratio writes a multiple of the limit: "1.97 ×". "1.00 ×" means exactly the limit.
func Ratio(f float64) string {
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

// Micros writes microseconds with three digits, in a fitting unit: "840 µs", "1.24 ms",
// "12 s".
func Micros(us int64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%d µs", us)
	case us < 999_500:
		return Decimal(float64(us)/1000) + " ms"
	}
	return Decimal(float64(us)/1e6) + " s"
}

// Decimal writes a figure with three digits, or with all digits before its point.
func Decimal(f float64) string {
	switch size := math.Abs(f); {
	case math.IsNaN(f), math.IsInf(f, 0):
		return "-"
	case size >= 99.95:
		return Thousands(int64(math.Round(f)))
	case size >= 9.995:
		return Decimals(f, 1)
	case size >= 0.0995:
		return Decimals(f, 2)
	}
	return Decimals(f, 3)
}

// PerSecond writes a rate.
func PerSecond(f float64) string { return Decimal(f) + "/s" }

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// table writes a Markdown table.
func table(out io.Writer, rows ...[]string) {
	fmt.Fprintln(out)
	for i, row := range rows {
		fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(out, "|---|%s\n", strings.Repeat("---:|", len(row)-1))
		}
	}
}

// medians makes a table of the medians of value, with a row for each contestant and a column for each cell.
func medians(measured results, contestants []contestant, cells []cell, value func(sample) float64, format func(float64) string) [][]string {
	rows := [][]string{header(cells)}
	for i := range contestants {
		row := []string{contestants[i].name}
		for j := range cells {
			values := make([]float64, len(measured[i][j]))
			for round, s := range measured[i][j] {
				values[round] = value(s)
			}
			row = append(row, format(median(values)))
		}
		rows = append(rows, row)
	}
	return rows
}

// ratios makes a table of how much faster the first contestant is than each of the others: the median over the
// rounds, with the least and the greatest.
func ratios(measured results, contestants []contestant, cells []cell) [][]string {
	rows := [][]string{header(cells)}
	for i := 1; i < len(contestants); i++ {
		row := []string{contestants[0].name + " ÷ " + contestants[i].name}
		for j := range cells {
			row = append(row, ratioOf(speeds(measured[0][j]), speeds(measured[i][j])))
		}
		rows = append(rows, row)
	}
	return rows
}

func speeds(samples []sample) (all []float64) {
	for _, s := range samples {
		all = append(all, s.perSecond)
	}
	return all
}

func header(cells []cell) []string {
	row := []string{""}
	for _, c := range cells {
		row = append(row, c.name)
	}
	return row
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}

// thousands writes n with separators: 12,345.
func thousands(n float64) string {
	digits := fmt.Sprintf("%.0f", n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func decimals(n float64) string { return fmt.Sprintf("%.1f", n) }

// ratioOf returns how many times as large values are as the others of the same rounds: the median, with the least
// and the greatest.
func ratioOf(values, others []float64) string {
	ratios := make([]float64, len(values))
	for round := range values {
		ratios[round] = values[round] / others[round]
	}
	return fmt.Sprintf("**%.2f** (%.2f–%.2f)", median(ratios), slices.Min(ratios), slices.Max(ratios))
}

// spread writes the median of values, with the least and the greatest.
func spread(values []float64, format func(float64) string) string {
	return fmt.Sprintf("%s (%s–%s)", format(median(values)), format(slices.Min(values)), format(slices.Max(values)))
}

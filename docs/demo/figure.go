//go:build demo

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"
)

// A result is what the demo reads of a report that `limitctl loadtest --save` wrote.
type result struct {
	Limit   string
	Allowed int
	Audit   struct {
		Worst float64 `json:"worst_window_ratio"`
	}
	Cost struct {
		ServerCPU *float64 `json:"server_cpu_us"` // nil for a file
		Bytes     int      `json:"bytes_per_key"`
	}
}

// runsOf reads a report in home.
func (d *demo) runsOf(name string) ([]result, error) {
	text, err := os.ReadFile(filepath.Join(d.home, name))
	if err != nil {
		return nil, err
	}
	var report struct{ Runs []result }
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, err
	}
	if len(report.Runs) == 0 {
		return nil, fmt.Errorf("%s has no run", name)
	}
	return report.Runs, nil
}

// figure shows what a burst before and a burst after a window's edge get through, under each algorithm.
func (d *demo) figure(ctx context.Context) error {
	heading("2. The figure", "A full burst just before the edge of a window, and another just after it.")
	bars, err := d.boundary(ctx)
	if err != nil {
		return err
	}
	draw("worst window", "a decision  a key", bars)
	fmt.Println("A fixed window lets both through, by its definition; buckets go by their burst.")
	return nil
}

func (d *demo) boundary(ctx context.Context) (bars []bar, err error) {
	const saved = "boundary.json"
	args := []string{"loadtest", "--limit", "100/1s", "--algorithm", "all", "--scenario", "boundary", "--save", saved}
	showCommand(args...)
	cmd := d.command(ctx, args...)
	cmd.Stdout = nil // the figure has it
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("limitctl loadtest: %w", err)
	}
	runs, err := d.runsOf(saved)
	for _, r := range runs {
		name, of, _ := strings.Cut(r.Limit, ":")
		if _, slices, has := strings.Cut(of, ","); has {
			name += ", " + slices
		}
		b := bar{Title: name, Times: r.Audit.Worst, Bytes: fmt.Sprintf("%d B", r.Cost.Bytes)}
		if r.Cost.ServerCPU != nil {
			b.CPU = fmt.Sprintf("%.1f µs", *r.Cost.ServerCPU)
		}
		b.Note = fmt.Sprintf("%8s %7s", b.CPU, b.Bytes)
		bars = append(bars, b)
	}
	return bars, err
}

// picture is README's first: bars that end at the line of the limit, or beyond it.
var picture = template.Must(template.New("").Funcs(template.FuncMap{
	"add":    func(by, to int) int { return to + by },
	"y":      func(i int) int { return 76 + 26*i },
	"bottom": func(bars []bar) int { return 76 + 26*len(bars) },
	"within": func(b bar) float64 { return 170 * min(b.Times, 1) },
	"over":   func(b bar) float64 { return 170 * max(0, b.Times-1) },
	"tone":   func(b bar) string { return map[bool]string{true: "over", false: "text"}[b.Times > 1.5] },
}).Parse(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {{bottom . | add 34}}" role="img"
  aria-label="How much each algorithm lets through around the edge of a window, as a multiple of its limit">
<style>
text { font: 14px ui-sans-serif, system-ui, sans-serif; fill: #1f2328 }
.note { fill: #59636e; font-size: 13px } .right { text-anchor: end } .title { font-weight: 600; font-size: 16px }
.bar { fill: #4c8a66 } .beyond { fill: #c93c37 } .over { fill: #c93c37; font-weight: 600 }
.line { stroke: #9a6700; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .note { fill: #9198a1 } .bar { fill: #57ab7a } .beyond { fill: #f47067 } .over { fill: #f47067 }
.line { stroke: #d4a72c } }
</style>
<text x="16" y="26" class="title">A full burst just before the edge of a window, and another just after it</text>
<text x="16" y="56" class="note">algorithm</text>
<text x="402" y="56" class="note" text-anchor="middle">the limit</text>
<text x="640" y="56" class="note right">worst window</text>
{{- with (index . 0).CPU}}<text x="688" y="56" class="note right">Redis</text>{{end}}
<text x="752" y="56" class="note right">a key</text>
{{- range $i, $b := .}}
<text x="16" y="{{y $i | add 15}}">{{.Title}}</text>
<rect x="232" y="{{y $i}}" width="{{within .}}" height="20" rx="2" class="bar"/>
{{- if over .}}<rect x="402" y="{{y $i}}" width="{{over .}}" height="20" rx="2" class="beyond"/>{{end}}
<text x="628" y="{{y $i | add 15}}" class="{{tone .}} right">{{printf "%.2f ×" .Times}}</text>
<text x="688" y="{{y $i | add 15}}" class="note right">{{.CPU}}</text>
<text x="752" y="{{y $i | add 15}}" class="note right">{{.Bytes}}</text>
{{- end}}
<path d="M402 64V{{bottom . | add 2}}" class="line"/>
<text x="16" y="{{bottom . | add 24}}" class="note">
Of 100 a second. Buckets go by their burst. Redis: its processor’s time for a decision; a key: its memory.
</text>
</svg>
`))

func (d *demo) writeFigure(ctx context.Context, path string) error {
	bars, err := d.boundary(ctx)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := picture.Execute(&b, bars); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

//go:build demo

package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A result is what the demo reads of a report that `limitctl loadtest --save` wrote.
type result struct {
	Limit   string
	Allowed int
	Audit   struct {
		Worst float64 `json:"worst_window_ratio"`
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
		b := bar{Title: name, Times: r.Audit.Worst}
		if b.CPU, b.Bytes, err = d.costOf(ctx, r.Limit); err != nil {
			return nil, err
		}
		b.Note = fmt.Sprintf("%8s %7s", b.CPU, b.Bytes)
		bars = append(bars, b)
	}
	return bars, err
}

// costOf takes a limit unit by unit, and returns what a take cost the Redis, empty for a file, and the memory of the
// key.
func (d *demo) costOf(ctx context.Context, text string) (cpu, bytes string, err error) {
	limit, err := limiter.ParseLimit("figure", text)
	if err != nil {
		return "", "", err
	}
	var before int64
	for _, subject := range []string{"warm-up", text} {
		before = d.timeOfScripts(ctx)
		for range limit.Count {
			if _, err := d.limits.Take(ctx, limit.ForSubject(subject)); err != nil {
				return "", "", err
			}
		}
	}
	if d.keys != nil {
		cpu = fmt.Sprintf("%.1f µs", float64(d.timeOfScripts(ctx)-before)/float64(limit.Count))
	}
	space, _ := admin.KeyspaceOf(d.limits.Store())
	key := store.Key{Subject: text, Name: "figure"}
	for e, failed := range space.Scan(ctx, admin.Query{Keys: []store.Key{key}, Bytes: true}) {
		err = failed
		bytes = fmt.Sprintf("%d B", e.Bytes)
	}
	return cpu, bytes, err
}

// timeOfScripts returns the µs that the Redis has spent in scripts, 0 for a file.
func (d *demo) timeOfScripts(ctx context.Context) (us int64) {
	if d.keys != nil {
		_, text, _ := strings.Cut(d.keys.Info(ctx, "commandstats").Val(), "cmdstat_evalsha:")
		_, text, _ = strings.Cut(text, "usec=")
		fmt.Sscan(text, &us) // what follows the number ends it
	}
	return us
}

//go:embed figure.svg.tmpl
var pictureText string

// picture is README's first: bars that end at the line of the limit, or beyond it.
var picture = template.Must(template.New("").Funcs(template.FuncMap{
	"add":    func(by, to int) int { return to + by },
	"y":      func(i int) int { return 76 + 26*i },
	"bottom": func(bars []bar) int { return 76 + 26*len(bars) },
	"within": func(b bar) float64 { return 170 * min(b.Times, 1) },
	"over":   func(b bar) float64 { return 170 * max(0, b.Times-1) },
	"tone":   func(b bar) string { return map[bool]string{true: "over", false: "text"}[b.Times > 1.5] },
}).Parse(pictureText))

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

package report

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/hostiletext"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// Pointer returns where a number is.
func Pointer(f float64) *float64 { return &f }

// saved reads a document of testdata.
func saved(name string) *Document {
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		panic(err)
	}
	d, err := Read(name, data)
	if err != nil {
		panic(err)
	}
	return d
}

// oneRun is a load test of one limit: half a minute at a thousand a second.
func oneRun() *Document { return saved("fixtures/one") }

// fiveRuns is a load test of each algorithm.
func fiveRuns() *Document { return saved("fixtures/five") }

// racing is the naive implementation, with all that can go wrong with a run.
func racing() *Document { return saved("fixtures/racing") }

// simulated is a simulation of two limits.
func simulated() *Document { return saved("fixtures/simulation") }

// Promised judges a document by thresholds, and returns it.
func Promised(d *Document, texts ...string) *Document {
	var expressions []Expression
	for _, text := range texts {
		e, err := ParseThreshold(text)
		if err != nil {
			panic(err)
		}
		expressions = append(expressions, e)
	}
	if err := d.Evaluate(expressions); err != nil {
		panic(err)
	}
	return d
}

func emptyRun() *Document {
	d := New(LoadTest)
	d.Runs = []Run{{Algorithm: "token-bucket", Limit: "token-bucket:10/1m", Store: "memory:",
		Load: "10/s uniform over 1 key",
		Rate: 10}}
	return Promised(d, "denied<1%")
}

// Fixtures are all of these documents, by name.
func Fixtures() map[string]*Document {
	texts := hostiletext.Texts()
	script := slices.Index(texts, "<script>alert(1)</script>")
	return map[string]*Document{
		"one": oneRun(), "five": fiveRuns(), "racing": racing(), "simulation": simulated(), "empty": emptyRun(),
		"hostile": stranger(texts[script : script+8]), "none": New(LoadTest),
	}
}

// Printed is what a terminal of some width shows of an answer; 0 is no terminal.
func Printed(a output.Answer, width int) string {
	var b bytes.Buffer
	a.Print(&output.Printer{Out: &b, Width: width})
	return b.String()
}

// stranger is a document that holds texts wherever there is text. It is read from a file, as those of others are.
func stranger(texts []string) *Document {
	d, usual := New(LoadTest), oneRun().Runs[0]
	for i, text := range texts {
		run := usual
		run.Algorithm, run.Limit, run.Policy, run.Implementation = text, text, text, text
		run.Store, run.Load, run.Scenario = text, text, text
		run.Limits = []loadgen.Limit{{Name: text, Algorithm: text, Limit: text}, {Name: text + "2", Limit: text}}
		run.MostDenied = []KeyCount{{Key: text, Denied: 2, Allowed: 1}}
		run.ErrorTexts, run.Warnings = []loadgen.ErrorCount{{Text: text, Count: 1}}, []string{text}
		run.Requests++
		run.Errors++
		d.Runs = append(d.Runs, run)
		d.Thresholds = append(d.Thresholds, Threshold{Expression: text, Actual: text, Run: i})
		d.Suggestions = append(d.Suggestions, Suggestion{Promise: text, Algorithm: text, Limit: text, Actual: text,
			Below: text, Kept: i%2 == 0})
	}
	data, err := d.Save()
	if err == nil {
		d, err = Read("x.json", data)
	}
	if err != nil {
		panic(err)
	}
	return d
}

// Strangers returns documents of all texts of strangers, with several runs and with one.
func Strangers() (all []*Document) {
	for texts := range slices.Chunk(hostiletext.Texts(), 8) {
		all = append(all, stranger(texts), stranger(texts[:1]))
	}
	return all
}

// Obeyed is a line of text in which something is not seen.
func Obeyed(text string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimLeft(line, "\t"); output.Escape(line) != line {
			return line
		}
	}
	return ""
}

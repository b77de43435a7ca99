// Command lint is what `make lint` checks beyond go vet and staticcheck. It is a tool of go
// vet, which remembers what it found in packages that did not change:
//
//	errorlint    errors that are compared or asserted in a way that misses wrapped ones
//	exhaustive   switches that miss a value and have no default
//	ineffassign  values that are assigned and never used
package main

import (
	"strings"

	"github.com/gordonklaus/ineffassign/pkg/ineffassign"
	"github.com/nishanths/exhaustive/passes/exhaustive"
	"github.com/polyfloyd/go-errorlint/errorlint"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/unitchecker"
)

func main() {
	for name, value := range map[string]string{
		"d":          "true",                                // a default covers all other values
		"typeignore": `^github\.com/(charmbracelet|goccy)/`, // types of these modules have a hundred values
	} {
		if err := exhaustive.Analyzer.Flags.Set(name, value); err != nil {
			panic(err)
		}
	}
	unitchecker.Main(outsideTests(errorlint.NewAnalyzer()), outsideTests(exhaustive.Analyzer), ineffassign.Analyzer)
}

// outsideTests excludes tests, in which a wrong error can be intended.
func outsideTests(a *analysis.Analyzer) *analysis.Analyzer {
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		report := pass.Report
		pass.Report = func(d analysis.Diagnostic) {
			if !strings.HasSuffix(pass.Fset.Position(d.Pos).Filename, "_test.go") {
				report(d)
			}
		}
		return run(pass)
	}
	return a
}

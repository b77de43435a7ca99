package limiter_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/tier"
)

var update = flag.Bool("update", false, "write the list of names anew")

// maxNames is the most exported names of the package. A type and its constants count once.
const maxNames = 45

// A published name stays for ever, so a new one is a decision: it has to be added to the list.
func TestExportedNames(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	tier.Must(t, err)
	var all []string // with their kinds, and the types of constants
	add := func(kind, name, constantOf string) {
		if ast.IsExported(name) {
			all = append(all, strings.TrimSpace(kind+" "+name+" "+constantOf))
		}
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		tier.Must(t, err)
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add("func", d.Name.Name, "")
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						add("type", s.Name.Name, "")
					case *ast.ValueSpec:
						constantOf := ""
						if typed, is := s.Type.(*ast.Ident); is && d.Tok == token.CONST {
							constantOf = typed.Name
						}
						for _, name := range s.Names {
							add(d.Tok.String(), name.Name, constantOf)
						}
					}
				}
			}
		}
	}
	slices.Sort(all)
	got := strings.Join(all, "\n") + "\n"
	if counted := regexp.MustCompile(`(?m)^\w+ \w+$`).FindAllString(got, -1); len(counted) > maxNames {
		t.Errorf("%d exported names, at most %d: %s", len(counted), maxNames, strings.Join(counted, ", "))
	}
	const path = "testdata/names.txt"
	if *update {
		tier.Must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	if want, err := os.ReadFile(path); err != nil || got != string(want) {
		t.Errorf("the exported names are not those of %s, %v; if it is meant, run with -update\n%s", path, err, got)
	}
}

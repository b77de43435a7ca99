package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// careless are packages whose goroutines may panic, because they are for tests.
var careless = []string{"internal/panics", "internal/redistest", "pkg/limiter/storetest"}

// A panic of a goroutine ends the process with a trace, unless it is caught as in internal/panics.
func TestGoroutinesAreStartedWhereTheirPanicsAreCaught(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		hidden := path != "." && strings.HasPrefix(path, ".")
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (hidden || path == "bin" || path == "docs" || slices.Contains(careless, filepath.ToSlash(path))):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, at := range bareGoroutines(file) {
			t.Errorf("%s: a goroutine whose panic nobody catches; use internal/panics", set.Position(at))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("only %d files were looked at", files)
	}
}

// bareGoroutines returns the places where a file starts goroutines directly.
func bareGoroutines(file *ast.File) (places []token.Pos) {
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GoStmt:
			places = append(places, node.Pos())
		case *ast.SelectorExpr:
			if x, is := node.X.(*ast.Ident); is && x.Name == "sync" && node.Sel.Name == "WaitGroup" {
				places = append(places, node.Pos())
			}
		}
		return true
	})
	return places
}

func TestBareGoroutinesAreFound(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nimport \"sync\"\nvar w sync.WaitGroup\nfunc f() { go f() }", 0)
	if err != nil {
		t.Fatal(err)
	}
	if found := len(bareGoroutines(file)); found != 2 {
		t.Errorf("%d were found", found)
	}
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/tier"
)

// The bounds of a package: what somebody who lives in it can hold in mind.
const (
	mostFiles = 40
	mostLines = 5000
	mostCycle = 10 // files that refer to one another, directly or through others
	leastFile = 40 // lines of a file, unless it is the only one of its package or for some systems
)

// roomy says which packages may have more files or lines, since their files hardly refer to one another.
var roomy = map[string]string{
	"pkg/limiter/layouts": "a page for each limiter, and the pages do not refer to one another",
}

// tangled says which packages may have a bigger cycle, and why.
var tangled = map[string]string{
	"pkg/limiter/storetest": "the laws are methods of one fixture, and each can be read by itself",
}

// A source is a file of a package, tests apart.
type source struct {
	path       string
	lines      int
	file       *ast.File
	forASystem bool // it is built for some systems only
}

var systemFile = regexp.MustCompile(`_(linux|darwin|windows|freebsd|unix|other)\.go$`)

// A package has walls: a bounded size, and files that can be read one after the other.
func TestPackagesHaveWalls(t *testing.T) {
	tier.Full(t, "the sizes and cycles of packages, which need the types of all of them")
	fset := token.NewFileSet()
	exports, rooms := rooms(t)
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, room := range rooms {
		sources := sourcesOf(t, fset, room)
		lines := 0
		files := make([]*ast.File, len(sources))
		for i, s := range sources {
			files[i] = s.file
			lines += s.lines
		}
		name := strings.TrimPrefix(strings.TrimPrefix(room.ImportPath, module), "/")
		if _, may := roomy[name]; !may && (len(sources) > mostFiles || lines > mostLines) {
			t.Errorf("%s has %d files and %d lines; a package has at most %d files and %d lines", name, len(sources), lines, mostFiles,
				mostLines)
		}
		common := slices.DeleteFunc(slices.Clone(sources), func(s source) bool { return s.forASystem })
		for _, s := range common {
			if s.lines < leastFile && len(common) > 1 {
				t.Errorf("%s has %d lines, and at least %d make a file; it belongs to another one", s.path, s.lines, leastFile)
			}
		}
		info := types.Info{Uses: map[*ast.Ident]types.Object{}}
		config := types.Config{Importer: imports}
		checked, err := config.Check(room.ImportPath, fset, files, &info)
		if err != nil {
			t.Fatal(err)
		}
		if _, may := tangled[name]; may {
			continue
		}
		if cycle := biggestCycle(references(fset, checked, files, &info)); len(cycle) > mostCycle {
			t.Errorf("in %s, %d files refer to one another, and at most %d may: %s", name, len(cycle), mostCycle, strings.Join(cycle, " "))
		}
	}
}

// A room is a package, as the go command lists it.
type room struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// rooms returns where the types of each package are, and the packages of the module.
func rooms(t *testing.T) (exports map[string]string, own []room) {
	t.Helper()
	output, err := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	exports = map[string]string{}
	for decoder := json.NewDecoder(strings.NewReader(string(output))); ; {
		var r room
		if err := decoder.Decode(&r); errors.Is(err, io.EOF) {
			return exports, own
		} else if err != nil {
			t.Fatal(err)
		}
		exports[r.ImportPath] = r.Export
		if r.ImportPath == module || strings.HasPrefix(r.ImportPath, module+"/") {
			own = append(own, r)
		}
	}
}

func sourcesOf(t *testing.T, fset *token.FileSet, r room) []source {
	t.Helper()
	sources := make([]source, 0, len(r.GoFiles))
	for _, name := range r.GoFiles {
		path := filepath.Join(r.Dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		system := systemFile.MatchString(name) || strings.HasPrefix(string(text), "//go:build ")
		sources = append(sources, source{path, strings.Count(string(text), "\n"), file, system})
	}
	return sources
}

// references says which files each file of a package refers to, by what is declared on package level, by methods and
// by fields.
func references(fset *token.FileSet, p *types.Package, files []*ast.File, info *types.Info) map[string][]string {
	fileOf := func(pos token.Pos) string { return filepath.Base(fset.Position(pos).Filename) }
	to := map[string][]string{}
	for _, file := range files {
		from := fileOf(file.Package)
		to[from] = nil
		ast.Inspect(file, func(n ast.Node) bool {
			ident, is := n.(*ast.Ident)
			if !is {
				return true
			}
			object := info.Uses[ident]
			if object == nil || object.Pkg() != p || !object.Pos().IsValid() {
				return true
			}
			if v, is := object.(*types.Var); is && !v.IsField() && v.Parent() != p.Scope() {
				return true
			}
			if declared := fileOf(object.Pos()); declared != from && !slices.Contains(to[from], declared) {
				to[from] = append(to[from], declared)
			}
			return true
		})
	}
	return to
}

// biggestCycle returns the largest strongly connected component, sorted, by Tarjan's algorithm.
func biggestCycle(to map[string][]string) []string {
	var stack, biggest []string
	order, low, onStack := map[string]int{}, map[string]int{}, map[string]bool{}
	var visit func(string)
	visit = func(v string) {
		order[v] = len(order) + 1
		low[v] = order[v]
		stack = append(stack, v)
		onStack[v] = true
		for _, w := range to[v] {
			if order[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if onStack[w] {
				low[v] = min(low[v], order[w])
			}
		}
		if low[v] < order[v] {
			return
		}
		begin := slices.Index(stack, v)
		component := slices.Clone(stack[begin:])
		stack = stack[:begin]
		for _, w := range component {
			onStack[w] = false
		}
		if len(component) > len(biggest) {
			biggest = component
		}
	}
	for v := range to {
		if order[v] == 0 {
			visit(v)
		}
	}
	slices.Sort(biggest)
	return biggest
}

func TestTheBiggestCycleIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		to   map[string][]string
		want string
	}{
		"none":             {map[string][]string{"a": {"b"}, "b": {"c"}, "c": nil}, "1"},
		"two and three":    {map[string][]string{"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"e"}, "e": {"c"}}, "[c d e]"},
		"one through many": {map[string][]string{"a": {"b"}, "b": {"c"}, "c": {"d", "b"}, "d": {"a"}}, "[a b c d]"},
	} {
		got := fmt.Sprint(biggestCycle(c.to))
		if c.want == "1" {
			got = fmt.Sprint(len(biggestCycle(c.to)))
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// What is exported is used by another package. The packages under pkg have users elsewhere.
func TestNothingIsExportedForNobody(t *testing.T) {
	exported := map[string]token.Position{} // import path and name
	var enumerations [][]string             // what stands together is exported together
	inSignature := map[string]bool{}        // types that callers get without naming them
	used := map[string]bool{}
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.Contains(path, "testdata") {
			return err
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		own := module + "/" + filepath.ToSlash(filepath.Dir(path))
		if !strings.HasSuffix(path, "_test.go") && strings.Contains(own, "/internal/") {
			declare(fset, file, own+".", exported, inSignature)
			enumerations = append(enumerations, enumerationsOf(file, own+".")...)
		}
		markUses(file, own, used)
		return nil
	})
	if err != nil || len(exported) < 100 {
		t.Fatalf("%d names, %v", len(exported), err)
	}
	used[module+"/cmd/internal/report/compare.Same"] = true // with the other verdicts it is what a comparison's JSON has
	for _, names := range enumerations {
		if slices.ContainsFunc(names, func(name string) bool { return used[name] }) {
			for _, name := range names {
				used[name] = true
			}
		}
	}
	for name, position := range exported {
		if !used[name] && !inSignature[name] {
			t.Errorf("%s: no other package uses %s", position, strings.TrimPrefix(name, module+"/"))
		}
	}
}

// declare notes the exported names of a file, and the types in the signatures and fields of exported ones.
func declare(fset *token.FileSet, file *ast.File, prefix string, exported map[string]token.Position, inSignature map[string]bool) {
	note := func(ident *ast.Ident) {
		if ident.IsExported() {
			exported[prefix+ident.Name] = fset.Position(ident.Pos())
		}
	}
	mention := func(node ast.Node) {
		ast.Inspect(node, func(n ast.Node) bool {
			if ident, is := n.(*ast.Ident); is && ident.IsExported() {
				inSignature[prefix+ident.Name] = true
			}
			return true
		})
	}
	for _, declared := range file.Decls {
		switch d := declared.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				note(d.Name)
			}
			mention(d.Type)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					note(s.Name)
					mention(s.Type)
				case *ast.ValueSpec:
					for _, ident := range s.Names {
						note(ident)
					}
					if s.Type != nil {
						mention(s.Type)
					}
				}
			}
		}
	}
}

// enumerationsOf returns the names of each group of constants or variables.
func enumerationsOf(file *ast.File, prefix string) (all [][]string) {
	for _, declared := range file.Decls {
		d, is := declared.(*ast.GenDecl)
		if !is || d.Tok != token.CONST && d.Tok != token.VAR {
			continue
		}
		var names []string
		for _, spec := range d.Specs {
			for _, ident := range spec.(*ast.ValueSpec).Names {
				names = append(names, prefix+ident.Name)
			}
		}
		all = append(all, names)
	}
	return all
}

// markUses notes the names of other packages of the module that a file uses.
func markUses(file *ast.File, own string, used map[string]bool) {
	imported := map[string]string{} // by the name in the file
	for _, i := range file.Imports {
		path := strings.Trim(i.Path.Value, `"`)
		name := filepath.Base(path)
		if i.Name != nil {
			name = i.Name.Name
		}
		if strings.HasPrefix(path, module+"/") && (path != own || strings.HasSuffix(file.Name.Name, "_test")) {
			imported[name] = path
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if selector, is := n.(*ast.SelectorExpr); is {
			if x, is := selector.X.(*ast.Ident); is && imported[x.Name] != "" {
				used[imported[x.Name]+"."+selector.Sel.Name] = true
			}
		}
		return true
	})
}

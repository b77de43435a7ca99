// Package house has tests of the sources: what a reviewer would count, and the linters do not.
package house

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the budgets that packages need now")

// A source is a file of the repository in Go or Lua, with its path from the top.
type source struct {
	path   string
	text   string
	isTest bool
}

func (s source) folder() string { return path.Dir(s.path) }

func (s source) lines() int { return strings.Count(s.text, "\n") }

// isProgram reports whether a file is part of the library or a command, and no test or sample.
func (s source) isProgram() bool {
	return strings.HasSuffix(s.path, ".go") && !s.isTest && !strings.HasPrefix(s.path, "docs/")
}

func sources(t *testing.T) (all []source) {
	t.Helper()
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(name, ".") && name != "."
		switch kind := path.Ext(name); {
		case err != nil:
			return err
		case d.IsDir() && (hidden || name == "bin" || d.Name() == "node_modules" || d.Name() == "testdata"):
			return fs.SkipDir
		case !d.IsDir() && (kind == ".go" || kind == ".lua"):
			text, err := fs.ReadFile(root, name)
			all = append(all, source{name, string(text), strings.HasSuffix(name, "_test.go")})
			return err
		}
		return nil
	})
	if err != nil || len(all) < 200 {
		t.Fatalf("%d files, %v", len(all), err)
	}
	return all
}

// A package does not grow beyond its budget: what is added somewhere is taken away there. With -update, budgets become
// what their packages have, and a review sees which ones rise.
func TestBudgets(t *testing.T) {
	have := map[string]int{}
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, ".go") && !s.isTest {
			have[s.folder()] += s.lines()
		}
	}
	if *update {
		var b bytes.Buffer
		for _, name := range slices.Sorted(maps.Keys(have)) {
			fmt.Fprintf(&b, "%5d %s\n", have[name], name)
		}
		if err := os.WriteFile("budgets.txt", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("budgets.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var name string
		var budget int
		if _, err := fmt.Sscan(line, &budget, &name); err != nil {
			t.Fatalf("%q: %s", line, err)
		}
		if lines, is := have[name]; !is || lines > budget {
			t.Errorf("%s has %d lines, and its budget is %d", name, lines, budget)
		}
		delete(have, name)
	}
	for name, lines := range have {
		t.Errorf("%s has %d lines and no budget; -update writes it", name, lines)
	}
}

// A file is read in one sitting, and a package has few of them. What is short belongs to another file, unless it is for
// some systems only.
func TestFilesAreReadInOneSitting(t *testing.T) {
	const shortest, longest, most = 40, 600, 40
	files := map[string][]source{}
	aSystem := regexp.MustCompile(`_(linux|darwin|windows|freebsd|unix|other)\.go$|^//go:build `)
	for _, s := range sources(t) {
		if lines := s.lines(); lines > longest {
			t.Errorf("%s has %d lines, and may have %d", s.path, lines, longest)
		}
		if s.isProgram() && !aSystem.MatchString(s.path) && !strings.HasPrefix(s.text, "//go:build ") {
			files[s.folder()] = append(files[s.folder()], s)
		}
	}
	for folder, of := range files {
		if len(of) > most && folder != "pkg/limiter/layouts" { // a page for each limiter
			t.Errorf("%s has %d files, and may have %d", folder, len(of), most)
		}
		for _, s := range of {
			if s.lines() < shortest && len(of) > 1 {
				t.Errorf("%s has %d lines; a file has at least %d", s.path, s.lines(), shortest)
			}
		}
	}
}

// Each capability has scripts or tests by name, which are there and so run with all others.
func TestCapabilities(t *testing.T) {
	text, err := os.ReadFile("capabilities.txt")
	if err != nil {
		t.Fatal(err)
	}
	ofTests := map[string]string{} // the sources of tests by folder
	for _, s := range sources(t) {
		if s.isTest {
			ofTests[s.folder()] += s.text
		}
	}
	for line := range strings.Lines(string(text)) {
		clause, names, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for name := range strings.SplitSeq(names, ", ") {
			folder, test, _ := strings.Cut(name, " ")
			_, err := os.Stat(filepath.Join("../../cmd/testdata", test+".txtar"))
			isScript, isTest := folder == "script" &&
				err == nil, strings.Contains(ofTests[folder], "\nfunc "+test+"(t *testing.T)")
			if !strings.HasPrefix(line, "#") && !isScript && !isTest {
				t.Errorf("%s: nothing is called %q", clause, name)
			}
		}
	}
}

// pre-commit installs the hook by go install ./..., which builds each program that there is: one.
func TestTheHookBuildsOneProgram(t *testing.T) {
	list := exec.Command("go", "list", "-f", `{{if eq .Name "main"}}{{.ImportPath}}{{end}}`, "./...")
	list.Dir = "../.."
	programs, err := list.Output()
	if got := strings.Fields(string(programs)); err != nil || len(got) != 1 {
		t.Errorf("go install ./... builds %q, %v", got, err)
	}
}

// A panic of a goroutine ends the process with a trace, unless it is caught as in internal/panics.
func TestGoroutinesAreStartedWhereTheirPanicsAreCaught(t *testing.T) {
	bare := regexp.MustCompile(`(?m)^\s*go (func\b|[\w.]+\().*$`)
	if !bare.MatchString("\tgo func() {") || !bare.MatchString("\tgo s.run(ctx)") {
		t.Error("the pattern finds nothing")
	}
	for _, s := range sources(t) {
		ofTests := slices.Contains([]string{"internal/panics", "internal/redistest", "pkg/limiter/storetest"},
			s.folder())
		if found := bare.FindString(s.text); found != "" && s.isProgram() && !ofTests {
			t.Errorf("%s: %s: use internal/panics", s.path, strings.TrimSpace(found))
		}
	}
}

// A command or a flag that is printed with a value in it gets pasted, so shell.Command writes it. An error that only
// names a flag begins with its name.
func TestHintsAreWrittenByShellCommand(t *testing.T) {
	unquoted := regexp.MustCompile(
		`"[^"]+(--[a-z-]+[ =]%[svq]|(limitctl|redis-cli) [a-z-]+ %[svq]|redis://%s|file:%s)|` +
			`(--[a-z-]+[ =]|limitctl [a-z]+ |redis-cli [^"]*|ACL SETUSER [^"]*)" ?\+ *\S`)
	harmless := regexp.MustCompile(`" \+ (onError|strings\.ToLower|layouts\b)`) // our own words
	if !unquoted.MatchString(`"run limitctl reset %s"`) {
		t.Error("the pattern finds nothing")
	}
	for _, s := range sources(t) {
		for line := range strings.Lines(s.text) {
			if s.isProgram() && unquoted.MatchString(line) && !harmless.MatchString(line) {
				t.Errorf("%s: %s: shell.Command makes it safe to paste", s.path, strings.TrimSpace(line))
			}
		}
	}
}

// What an internal package exports is used by another package.
func TestNothingIsExportedForNobody(t *testing.T) {
	selected := regexp.MustCompile(`\.([A-Z]\w*)`)
	users := map[string]map[string]bool{} // the folders that select a name
	exported := map[string]string{}       // folder/name, and its group of constants or variables
	for _, s := range sources(t) {
		if !strings.HasSuffix(s.path, ".go") {
			continue
		}
		for _, found := range selected.FindAllStringSubmatch(s.text, -1) {
			if users[found[1]] == nil {
				users[found[1]] = map[string]bool{}
			}
			user := s.folder()
			if s.isTest && strings.Contains(s.text, "package "+path.Base(user)+"_test") {
				user += "_test"
			}
			users[found[1]][user] = true
		}
		if !s.isTest && strings.Contains("/"+s.folder()+"/", "/internal/") {
			for name, group := range namesOf(t, s) {
				exported[s.folder()+"/"+name] = group
			}
		}
	}
	isUsed := func(name string) bool {
		folder, ident := path.Split(name)
		for user := range users[ident] {
			if user != filepath.Clean(folder) {
				return true
			}
		}
		return false
	}
	usedGroups := map[string]bool{"": false}
	for name, group := range exported {
		usedGroups[group] = usedGroups[group] || group != "" && isUsed(name)
	}
	if len(exported) < 300 {
		t.Errorf("only %d names", len(exported))
	}
	for name, group := range exported {
		if !isUsed(name) && !usedGroups[group] {
			t.Errorf("no other package uses %s", name)
		}
	}
}

// No public package exports a type of an internal one: its documentation would be nowhere.
func TestNoInternalTypeIsPublic(t *testing.T) {
	list := exec.Command("go", "list", "-C", "../..", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}",
		"./pkg/...")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	compiled := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		compiled[name] = file
	}
	read := importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) {
		return os.Open(compiled[name])
	})
	public := 0
	for name := range compiled {
		if !strings.Contains(name, "limitctl/pkg/") || strings.Contains(name, "/internal") {
			continue
		}
		public++
		p, err := read.Import(name)
		if err != nil {
			t.Fatal(err)
		}
		check := func(what string, of types.Type) {
			types.TypeString(of, func(used *types.Package) string {
				if strings.Contains(used.Path(), "/internal/") {
					t.Errorf("%s.%s is of the internal package %s", name, what, used.Path())
				}
				return ""
			})
		}
		for _, exported := range p.Scope().Names() {
			object := p.Scope().Lookup(exported)
			if !object.Exported() {
				continue
			}
			check(exported, types.Unalias(object.Type()))
			switch s := object.Type().Underlying().(type) {
			case *types.Struct:
				for field := range s.Fields() {
					if field.Exported() {
						check(exported+"."+field.Name(), field.Type())
					}
				}
			default: // such as the methods of an interface
				check(exported, s)
			}
			for method := range types.NewMethodSet(types.NewPointer(object.Type())).Methods() {
				if method.Obj().Exported() {
					check(exported+"."+method.Obj().Name(), method.Type())
				}
			}
		}
	}
	if public < 10 {
		t.Errorf("only %d packages", public)
	}
}

// namesOf returns the exported functions, constants and variables of a file. Those that stand together are a group.
func namesOf(t *testing.T, s source) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), s.path, s.text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for i, declared := range file.Decls {
		switch d := declared.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.IsExported() {
				names[d.Name.Name] = ""
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if values, is := spec.(*ast.ValueSpec); is {
					for _, ident := range values.Names {
						if ident.IsExported() {
							names[ident.Name] = fmt.Sprintf("%s %d", s.path, i)
						}
					}
				}
			}
		}
	}
	return names
}

package cmd

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/endpoint"
)

// mostFlagsOfAGroup is the most flags that one function adds.
const mostFlagsOfAGroup = 15

// A command with many flags has them in groups: each group is a struct with a method that adds its flags, so that a
// reader finds where a flag is declared, read and checked.
func TestFlagsAreInGroups(t *testing.T) {
	groups := flagGroups(t)
	known := map[string]bool{endpoint.TestHostFlag: true} // which is declared by this constant
	for group, flags := range groups {
		if len(flags) > mostFlagsOfAGroup {
			t.Errorf("%s adds %d flags, and at most %d are allowed; divide it: %s", group, len(flags), mostFlagsOfAGroup,
				strings.Join(flags, ", "))
		}
		for _, flag := range flags {
			known[flag] = true
		}
	}
	root := newRootCmd(&cli.Globals{Env: newWorld(t).Env})
	for _, c := range append(commandsOf(root), root) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && f.Name != "version" && !f.Hidden && !known[f.Name] {
				t.Errorf("no group has --%s of `%s`; declare it as flags.…Var(&o.field, %q, …)", f.Name, c.CommandPath(), f.Name)
			}
		})
	}
}

// flagGroups returns the flags that each function below cmd adds to a command.
func flagGroups(t *testing.T) map[string][]string {
	t.Helper()
	groups := map[string][]string{}
	declares := regexp.MustCompile(`^(\w*Var|\w+VarP|VarP)$`)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			function, is := declaration.(*ast.FuncDecl)
			if !is {
				continue
			}
			ast.Inspect(function, func(n ast.Node) bool {
				call, is := n.(*ast.CallExpr)
				if !is || len(call.Args) < 3 {
					return true
				}
				method, is := call.Fun.(*ast.SelectorExpr)
				name, isText := call.Args[1].(*ast.BasicLit)
				if !is || !isText || !declares.MatchString(method.Sel.Name) {
					return true
				}
				flag, err := strconv.Unquote(name.Value)
				if err != nil {
					t.Fatal(err)
				}
				group := path + " " + function.Name.Name
				groups[group] = append(groups[group], flag)
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return groups
}

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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

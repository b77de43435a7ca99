package cmd

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// goTypes are the types of cmd, internal and pkg, by folder and name.
type goTypes struct {
	structs   map[string]*ast.StructType
	named     map[string]ast.Expr // other types
	marshals  map[string]string   // JSON types of those that write themselves
	versioned []string            // those with the field schema_version
}

func readGo(t *testing.T) *goTypes {
	g := &goTypes{structs: map[string]*ast.StructType{}, named: map[string]ast.Expr{}, marshals: map[string]string{}}
	fset := token.NewFileSet()
	for _, root := range []string{".", "../internal", "../pkg"} {
		err := filepath.WalkDir(root, func(file string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.Contains(file, "testdata") {
				return err
			}
			parsed, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err == nil {
				g.add(path.Base(filepath.Dir(file)), parsed)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func (g *goTypes) add(folder string, file *ast.File) {
	function, names := "", map[*ast.StructType]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			function = n.Name.Name
			if n.Recv != nil {
				receiver := n.Recv.List[0].Type
				if star, is := receiver.(*ast.StarExpr); is {
					receiver = star.X
				}
				if name, is := receiver.(*ast.Ident); is {
					if function == "MarshalJSON" || function == "MarshalText" {
						g.marshals[folder+"/"+name.Name] = "text"
					}
					function = name.Name + "." + function
				}
			}
		case *ast.TypeSpec:
			if s, is := n.Type.(*ast.StructType); is {
				names[s] = n.Name.Name
				g.structs[folder+"/"+n.Name.Name] = s
			} else {
				g.named[folder+"/"+n.Name.Name] = n.Type
			}
		case *ast.StructType:
			for _, f := range n.Fields.List {
				if f.Tag != nil && strings.Contains(f.Tag.Value, `"schema_version"`) {
					name := names[n]
					if name == "" {
						name = function
					}
					g.structs[folder+"/"+name] = n
					g.versioned = append(g.versioned, folder+"/"+name)
				}
			}
		}
		return true
	})
}

// goField is a field of a document.
type goField struct {
	name, meaning string
	kind          ast.Expr
	optional      bool
	folder        string
}

// kindOf returns the JSON type of a field, and the struct in it if it has one.
func (g *goTypes) kindOf(f goField, place string) (kind, inner string) {
	if row := rows[place+"."+f.name]; row != "" {
		inner = row
	}
	kind, in := g.kind(f.kind, f.folder)
	if in != "" {
		inner = in
	}
	return kind, inner
}

func (g *goTypes) kind(e ast.Expr, folder string) (kind, inner string) {
	switch e := e.(type) {
	case *ast.StarExpr:
		kind, inner = g.kind(e.X, folder)
		return kind + " or null", inner
	case *ast.ArrayType:
		if id, is := e.Elt.(*ast.Ident); is && id.Name == "byte" {
			return "base64", ""
		}
		kind, inner = g.kind(e.Elt, folder)
		return "list of " + kind, inner
	case *ast.MapType:
		kind, inner = g.kind(e.Value, folder)
		return "object of " + kind, inner
	case *ast.StructType:
		return "object", ""
	case *ast.SelectorExpr:
		package_ := e.X.(*ast.Ident).Name
		switch package_ + "." + e.Sel.Name {
		case "time.Time":
			return "time", ""
		case "json.RawMessage":
			return "object", ""
		}
		return g.kind(e.Sel, package_)
	case *ast.Ident:
		switch e.Name {
		case "string":
			return "text", ""
		case "bool":
			return "boolean", ""
		case "any":
			return "object", ""
		case "float64", "float32":
			return "number", ""
		case "int", "int64", "int32", "uint64", "uint32", "int16", "uint16", "uint8", "uint":
			return "whole number", ""
		}
		key := folder + "/" + e.Name
		if g.marshals[key] != "" {
			return g.marshals[key], ""
		}
		if _, is := g.structs[key]; is {
			return "object", key
		}
		if under, is := g.named[key]; is {
			return g.kind(under, folder)
		}
		return "? " + key, ""
	}
	return fmt.Sprintf("? %T", e), ""
}

// fields are the fields of a struct in JSON, with those of embedded structs.
func (g *goTypes) fields(place string) (all []goField) {
	folder, _, _ := strings.Cut(place, "/")
	for _, f := range g.structs[place].Fields.List {
		tag := ""
		if f.Tag != nil {
			tag = reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json")
		}
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case name == "-":
		case name == "" && len(f.Names) == 0: // embedded
			_, inner := g.kind(f.Type, folder)
			_, isPointer := f.Type.(*ast.StarExpr)
			if inner != "" {
				for _, f := range g.fields(inner) {
					f.optional = f.optional || isPointer
					all = append(all, f)
				}
			}
		case name != "":
			meaning := g.inJSON(place, strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " "))
			field := goField{name: name, meaning: meaning, kind: f.Type, folder: folder, optional: strings.Contains(options, "omit")}
			if star, is := f.Type.(*ast.StarExpr); is && field.optional { // it is absent, and never null
				field.kind = star.X
			}
			all = append(all, field)
		}
	}
	return all
}

var (
	goName = regexp.MustCompile(`\b[A-Z][a-z]+[A-Za-z]*\b`)
	goLink = regexp.MustCompile(`\[([A-Za-z.]+)\]`)
)

// inJSON writes the comment of a Go field for readers of JSON: names of fields become theirs, and nil is null.
func (g *goTypes) inJSON(place, comment string) string {
	names := map[string]string{}
	for _, f := range g.structs[place].Fields.List {
		if f.Tag != nil && len(f.Names) == 1 {
			name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
			names[f.Names[0].Name] = name
		}
	}
	comment = goLink.ReplaceAllString(comment, "$1")
	comment = goName.ReplaceAllStringFunc(comment, func(word string) string {
		if name := names[word]; name != "" && name != "-" {
			return "`" + name + "`"
		}
		return word
	})
	return strings.ReplaceAll(comment, "nil ", "null ")
}

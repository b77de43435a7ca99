package cmd

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// goTypes are the types of cmd, internal and pkg, by folder and name.
type goTypes struct {
	structs   map[string]*ast.StructType
	named     map[string]ast.Expr // other types
	marshals  map[string]bool     // those that write themselves, as text
	versioned []string            // those with the field schema_version
}

func readGo(t *testing.T) *goTypes {
	g := &goTypes{structs: map[string]*ast.StructType{}, named: map[string]ast.Expr{}, marshals: map[string]bool{}}
	fset := token.NewFileSet()
	for _, root := range []string{".", "../internal", "../pkg"} {
		err := filepath.WalkDir(root, func(file string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") ||
				strings.Contains(file, "testdata") {
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
						g.marshals[folder+"/"+name.Name] = true
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

// schema is the JSON Schema of a struct within others.
func (g *goTypes) schema(place string, above ...string) map[string]any {
	properties, required := map[string]any{}, []string{}
	above = append(slices.Clone(above), place)
	for _, f := range g.fields(place) {
		property := g.schemaOf(f.kind, f.folder, rows[place+"."+f.name], above)
		if meaning := cmp.Or(f.meaning, shared[f.name]); meaning != "" && f.name != "schema_version" {
			property["description"] = meaning
		}
		properties[f.name] = property
		if !f.optional {
			required = append(required, f.name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

// schemaOf is the JSON Schema of a type; row is the struct that any stands for.
func (g *goTypes) schemaOf(e ast.Expr, folder, row string, above []string) map[string]any {
	name := ""
	switch e := e.(type) {
	case *ast.StarExpr:
		return map[string]any{"anyOf": []any{g.schemaOf(e.X, folder, row, above), map[string]any{"type": "null"}}}
	case *ast.ArrayType:
		if id, is := e.Elt.(*ast.Ident); is && id.Name == "byte" { // base64
			return map[string]any{"type": "string"}
		}
		return map[string]any{"type": []string{"array", "null"}, "items": g.schemaOf(e.Elt, folder, row, above)}
	case *ast.MapType:
		return map[string]any{"type": "object", "additionalProperties": g.schemaOf(e.Value, folder, row, above)}
	case *ast.SelectorExpr:
		folder, name = e.X.(*ast.Ident).Name, e.Sel.Name
	case *ast.Ident:
		name = e.Name
	}
	place := folder + "/" + name
	switch {
	case name == "any" && row != "":
		return g.schemaOf(&ast.ArrayType{Elt: ast.NewIdent(path.Base(row))}, path.Dir(row), "", above)
	case name == "string" || g.marshals[place]:
		return map[string]any{"type": "string"}
	case name == "bool":
		return map[string]any{"type": "boolean"}
	case strings.HasPrefix(name, "float"):
		return map[string]any{"type": "number"}
	case strings.HasPrefix(name, "int") || strings.HasPrefix(name, "uint"):
		return map[string]any{"type": "integer"}
	case place == "time/Time":
		return map[string]any{"type": "string", "format": "date-time"}
	case g.structs[place] == nil && g.named[place] != nil:
		return g.schemaOf(g.named[place], folder, row, above)
	case g.structs[place] == nil:
		place = row
	}
	if place == "" || slices.Contains(above, place) {
		return map[string]any{}
	}
	return g.schema(place, above...)
}

// structOf is the place of the struct that an embedded type is, or points to.
func structOf(e ast.Expr, folder string) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return structOf(e.X, folder)
	case *ast.SelectorExpr:
		return e.X.(*ast.Ident).Name + "/" + e.Sel.Name
	}
	return folder + "/" + e.(*ast.Ident).Name
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
			_, isPointer := f.Type.(*ast.StarExpr)
			for _, f := range g.fields(structOf(f.Type, folder)) {
				f.optional = f.optional || isPointer
				all = append(all, f)
			}
		case name != "":
			meaning := g.inJSON(place, strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " "))
			field := goField{name: name, meaning: meaning, kind: f.Type, folder: folder, optional: strings.Contains(
				options, "omit")}
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

package output

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Rows returns a slice of structs, or of pointers to structs, as CSV: a column for each field, named as in JSON. Values
// are those of JSON; lists of texts have commas between, null is empty. Fields that are other lists or objects have no
// column, unless they have a method Text() string.
func Rows(items any) [][]string {
	all := reflect.ValueOf(items)
	columns := columnsOf(all.Type().Elem())
	rows := [][]string{columns.header()}
	for _, item := range all.Seq2() {
		rows = append(rows, columns.row(item))
	}
	return rows
}

// columns are the fields of a struct that have a column.
type columns []reflect.StructField

func columnsOf(t reflect.Type) (all columns) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for _, field := range reflect.VisibleFields(t) {
		if name := nameOf(&field); name != "" && name != "-" && name != "schema_version" && isCell(field.Type) {
			all = append(all, field)
		}
	}
	return all
}

func nameOf(field *reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

func (c columns) header() []string {
	header := make([]string, len(c))
	for i := range c {
		header[i] = nameOf(&c[i])
	}
	return header
}

func (c columns) row(item reflect.Value) []string {
	of := reflect.Indirect(item)
	row := make([]string, len(c))
	for i := range c {
		if value, err := of.FieldByIndexErr(c[i].Index); err == nil { // else in a nil struct
			row[i] = cell(value)
		}
	}
	return row
}

// texter is what has a text for a cell.
type texter interface{ Text() string }

// isCell reports whether a field of that type has a column.
func isCell(t reflect.Type) bool {
	if t.Implements(reflect.TypeFor[texter]()) {
		return true
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[[]string]() ||
		!slices.Contains([]reflect.Kind{reflect.Struct, reflect.Slice, reflect.Map, reflect.Interface}, t.Kind())
}

// cell returns a value as a cell.
func cell(v reflect.Value) string {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return ""
	}
	if text, is := v.Interface().(texter); is {
		return text.Text()
	}
	v = reflect.Indirect(v)
	if n, is := v.Interface().(int64); is { // as most are
		return strconv.FormatInt(n, 10)
	}
	switch v.Kind() {
	case reflect.String:
		return v.String() // also if it is not UTF-8
	case reflect.Slice:
		return strings.Join(v.Interface().([]string), ",")
	default:
		text, _ := json.Marshal(v.Interface())
		return strings.Trim(string(text), `"`)
	}
}

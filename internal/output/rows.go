package output

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Rows returns structs, or pointers to structs, as CSV: a column for each field, named as in JSON. Values are those of
// JSON; lists of texts have commas between, null is empty. Fields that are other lists or objects have no column, unless
// they have a method Text() string.
func Rows[T any](items []T) [][]string {
	t := reflect.TypeFor[T]()
	if t.Kind() == reflect.Interface {
		t = reflect.TypeOf(items[0])
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var header []string
	var columns []reflect.StructField
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" && name != "schema_version" && isCell(field.Type) {
			header, columns = append(header, name), append(columns, field)
		}
	}
	rows := [][]string{header}
	for _, item := range items {
		of := reflect.Indirect(reflect.ValueOf(item))
		row := make([]string, len(columns))
		for i, column := range columns {
			if value, err := of.FieldByIndexErr(column.Index); err == nil { // else in a nil struct
				row[i] = cell(value)
			}
		}
		rows = append(rows, row)
	}
	return rows
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
	switch v = reflect.Indirect(v); v.Kind() {
	case reflect.String:
		return v.String() // also if it is not UTF-8
	case reflect.Slice:
		return strings.Join(v.Interface().([]string), ",")
	default:
		text, _ := json.Marshal(v.Interface())
		return strings.Trim(string(text), `"`)
	}
}

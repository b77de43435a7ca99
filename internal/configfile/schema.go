package configfile

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/limitctl/limitctl/internal/yamlfile"
)

// schemaText is the JSON Schema of the file, for checks and completion in editors. The reader takes the names of the
// fields from it, and is stricter: a schema cannot detect a limit that is never reached. A "patternErrorMessage" is not
// part of JSON Schema; editors show it in place of the pattern.
//
//go:embed limitctl.schema.json
var schemaText []byte

// SchemaText returns the content of docs/limitctl.schema.json.
func SchemaText() []byte { return slices.Clone(schemaText) }

// Fields returns the fields of a map that the schema defines, such as "policy"; those of the file are "".
func Fields(definition string) []yamlfile.Field { return fieldsOf()[definition] }

var fieldsOf = sync.OnceValue(func() map[string][]yamlfile.Field {
	type object struct {
		Required   []string
		Properties fieldList
	}
	var file struct {
		object
		Definitions map[string]object `json:"$defs"`
	}
	if err := json.Unmarshal(schemaText, &file); err != nil {
		panic(fmt.Sprintf("limitctl.schema.json: %s", err))
	}
	file.Definitions[""] = file.object
	fields := map[string][]yamlfile.Field{}
	for name, o := range file.Definitions {
		for _, f := range o.Properties {
			f.Required = slices.Contains(o.Required, f.Name)
			fields[name] = append(fields[name], f)
		}
	}
	return fields
})

// fieldList is the properties of an object, in the order in which they are written.
type fieldList []yamlfile.Field

// UnmarshalJSON implements [json.Unmarshaler].
func (l *fieldList) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	_, err := d.Token() // the bracket
	for err == nil && d.More() {
		var name json.Token
		if name, err = d.Token(); err == nil {
			var property struct{ Description string }
			err = d.Decode(&property)
			*l = append(*l, yamlfile.Field{Name: fmt.Sprint(name), About: property.Description})
		}
	}
	return err
}

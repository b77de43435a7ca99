package configfile

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

var update = flag.Bool("update", false, "write the schema as it is now")

// The schema has the fields of the reader, with the same required ones.
func TestSchemaIsCurrent(t *testing.T) {
	text := must(SchemaText())
	const file = "../../docs/limitctl.schema.json"
	if *update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if committed, err := os.ReadFile(file); err != nil || string(committed) != string(text) {
		t.Errorf("%s is not what `limitctl config schema` prints (%v)", file, err)
	}
}

// accepts implements the part of JSON Schema that our schema uses.
func accepts(root, s map[string]any, value any) bool {
	if ref, is := s["$ref"].(string); is {
		return accepts(root, root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), value)
	}
	if names, is := s["enum"].([]any); is && !slices.Contains(names, value) {
		return false
	}
	if types, is := s["type"]; is && !strings.Contains(fmt.Sprint(types), typeOf(value)) &&
		!(strings.Contains(fmt.Sprint(types), "integer") && value == math.Trunc(number(value))) {
		return false
	}
	if not, is := s["not"].(map[string]any); is && accepts(root, not, value) {
		return false
	}
	if any, is := s["anyOf"].([]any); is && !slices.ContainsFunc(any,
		func(one interface{}) bool { return accepts(root, one.(map[string]interface{}), value) }) {
		return false
	}
	switch value := value.(type) {
	case string:
		pattern, _ := s["pattern"].(string)
		least, _ := s["minLength"].(float64)
		if most, bounded := s["maxLength"].(float64); bounded && len(value) > int(most) {
			return false
		}
		return regexp.MustCompile(pattern).MatchString(value) && len(value) >= int(least)
	case float64:
		least, bounded := s["minimum"].(float64)
		return !bounded || value >= least && value <= s["maximum"].(float64)
	case []any:
		if least, _ := s["minItems"].(float64); len(value) < int(least) {
			return false
		}
		items, _ := s["items"].(map[string]any)
		return !slices.ContainsFunc(value, func(item any) bool { return !accepts(root, items, item) })
	case map[string]any:
		if least, _ := s["minProperties"].(float64); len(value) < int(least) {
			return false
		}
		needed, _ := s["required"].([]any)
		for _, name := range needed {
			if _, found := value[name.(string)]; !found {
				return false
			}
		}
		properties, _ := s["properties"].(map[string]any)
		for name, item := range value {
			if names, is := s["propertyNames"].(map[string]any); is && !accepts(root, names, name) {
				return false
			}
			property, known := properties[name].(map[string]any)
			if !known {
				if property, known = s["additionalProperties"].(map[string]any); !known {
					if s["additionalProperties"] == false {
						return false
					}
					continue
				}
			}
			if !accepts(root, property, item) {
				return false
			}
		}
	}
	return true
}

func typeOf(value any) string {
	switch value.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64:
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "null"
}

func number(value any) float64 {
	n, _ := value.(float64)
	return n
}

// The schema accepts what the reader accepts, and rejects files with a wrong shape.
func TestSchemaAgreesWithTheReader(t *testing.T) {
	text := must(SchemaText())
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	check := func(file string, want bool) {
		t.Helper()
		data := must(os.ReadFile(file))
		converted, err := yaml.YAMLToJSON(data)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var value any
		if err := json.Unmarshal(converted, &value); err != nil {
			t.Fatal(err)
		}
		if got := accepts(schema, schema, value); got != want {
			t.Errorf("%s is accepted: %t", file, got)
		}
	}
	for _, name := range []string{"readme", "everything", "http", "costs", "no-newline-at-the-end"} {
		check("testdata/good/"+name+".yaml", true)
	}
	for _, name := range []string{"a-list", "a-text", "comma-in-flow", "contexts", "missing-fields", "on-error", "shadow-yes",
		"unknown-algorithm", "unknown-field", "unfit-names", "wrong-types", "override-mistakes", "http", "http-attributes", "http-headers",
		"envoy", "costs", "warn", "classes",
		"envoy-is-a-list"} {
		check("testdata/broken/"+name+".yaml", false)
	}
}

// A cost is a number of units or a name, for the schema and for the reader.
func TestCostsInTheSchemaAndTheReader(t *testing.T) {
	for written, want := range map[string]bool{
		"1": true, "1000000000": true, `"1"`: true, "tokens": true, "output_tokens-2": true,
		"0": false, "-1": false, "1.5": false, "1000000001": false, `""`: false, "3x": false, "to kens": false, "[1]": false,
		"{a: 1}":                false,
		strings.Repeat("x", 64): true, strings.Repeat("x", 65): false,
	} {
		text := "policies: {p: {limits: [{name: a, by: [team], limit: 1000000000/1m, cost: " + written + "}]}}"
		_, r := Read("limitctl.yaml", []byte(text), Operators{})
		if got := len(r.Mistakes()) == 0; got != want {
			t.Errorf("the reader accepts cost: %s: %t", written, got)
		}
		data := must(json.Marshal(aCost()))
		var schema map[string]any
		if err := json.Unmarshal(data, &schema); err != nil {
			t.Fatal(err)
		}
		var value any
		if err := yaml.Unmarshal([]byte(written), &value); err != nil {
			t.Fatal(err)
		}
		if n, is := value.(uint64); is {
			value = float64(n)
		} else if n, is := value.(int64); is {
			value = float64(n)
		}
		if got := accepts(schema, schema, value); got != want {
			t.Errorf("the schema accepts cost: %s: %t", written, got)
		}
	}
}

// A limit and a duration have a form that the schema knows. It accepts all that the reader accepts, and rejects what a reader
// of YAML in an editor is to see at once.
func TestLimitsAndDurationsInTheSchemaAndTheReader(t *testing.T) {
	limits, durations := regexp.MustCompile(aLimit()["pattern"].(string)), regexp.MustCompile(aDuration()["pattern"].(string))
	for text, want := range map[string]bool{
		"10/1m": true, "10/m": true, "10/min": true, "10/5min": true, "3/week": true, "1k/1d12h": true, "1_000/90s": true, "5/1.5h": true,
		"gcra:10/1m": true, "token-bucket:10/1m,burst=20": true, "sliding-counter:10/1m,slices=60": true, "sliding-log:100/1h30m": true,
		"10/1month": false, "10/1mim": false, "10": false, "10/": false, "ten/1m": false, "10/1m,brust=20": false, "bucket:10/1m": false,
		"10 /1m": false, "10/1m/1h": false, "10/1h,100/1d": false, "1_00/1m": false, "1.5/1m": false, "-1/1m": false,
	} {
		_, r := Read("limitctl.yaml", []byte("policies: {p: {limits: [{name: a, by: [team], limit: '"+text+"'}]}}"), Operators{})
		if got := len(r.Mistakes()) == 0; got != want {
			t.Errorf("the reader accepts limit: %s: %t", text, got)
		}
		if got := limits.MatchString(text); got != want {
			t.Errorf("the schema accepts limit: %s: %t", text, got)
		}
	}
	for text, want := range map[string]bool{"500ms": true, "1s": true, "1m30s": true, "2min": true, "5": false, "soon": false, "1 s": false,
		"-1s": false} {
		_, r := Read("limitctl.yaml", []byte("breaker: {slow: '"+text+"'}"), Operators{})
		if got := len(r.Mistakes()) == 0; got != want {
			t.Errorf("the reader accepts slow: %s: %t", text, got)
		}
		if got := durations.MatchString(text); got != want {
			t.Errorf("the schema accepts slow: %s: %t", text, got)
		}
	}
}

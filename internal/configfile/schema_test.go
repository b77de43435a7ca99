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

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

var update = flag.Bool("update", false, "write the schema as it is now")

// The schema has the fields of the reader, with the same required ones.
func TestSchemaIsCurrent(t *testing.T) {
	text := SchemaText()
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
		return accepts(root, root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any),
			value)
	}
	if names, is := s["enum"].([]any); is && !slices.Contains(names, value) {
		return false
	}
	if types, is := s["type"]; is && !strings.Contains(fmt.Sprint(types), typeOf(value)) {
		n, number := value.(float64)
		if !number || n != math.Trunc(n) || !strings.Contains(fmt.Sprint(types), "integer") {
			return false
		}
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
	return map[string]string{"string": "string", "bool": "boolean", "float64": "number", "[]interface {}": "array",
		"map[string]interface {}": "object", "<nil>": "null"}[fmt.Sprintf("%T", value)]
}

// The schema accepts what the reader accepts, and rejects files with a wrong shape, so that an editor sees them at
// once.
func TestSchemaAgreesWithTheReader(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(SchemaText(), &schema); err != nil {
		t.Fatal(err)
	}
	accepted := func(name string, text []byte, want bool) {
		t.Helper()
		var value any
		if err := json.Unmarshal(must(yaml.YAMLToJSON(text)), &value); err != nil {
			t.Fatal(err)
		}
		_, r := Read("limitctl.yaml", text, Operators{})
		bySchema, byReader := accepts(schema, schema, value), len(r.Mistakes()) == 0
		if name == "broken/contexts" { // which only an operator's program reads
			byReader = false
		}
		if bySchema != want || byReader != want {
			t.Errorf("%s is accepted by the schema: %t, by the reader: %t", name, bySchema, byReader)
		}
	}
	for want, names := range map[bool][]string{
		true: {"good/readme", "good/everything", "good/http", "good/costs", "good/no-newline-at-the-end",
			"good/outage", "good/slices", "good/envoy-shadow"},
		false: {"broken/a-list", "broken/a-text", "broken/comma-in-flow", "broken/contexts", "broken/missing-fields",
			"broken/on-error", "broken/shadow-yes", "broken/unknown-algorithm", "broken/unknown-field",
			"broken/unfit-names",
			"broken/wrong-types", "broken/override-mistakes", "broken/http", "broken/http-attributes",
			"broken/http-headers",
			"broken/envoy", "broken/costs", "broken/classes", "broken/envoy-is-a-list"},
	} {
		for _, name := range names {
			accepted(name, must(os.ReadFile("testdata/"+name+".yaml")), want)
		}
	}
	const aLimit = "policies: {p: {limits: [{name: a, by: [team], limit: "
	for format, values := range map[string]map[bool][]string{
		aLimit + "1000000000/1m, cost: %s}]}}": { // a number of units, or a name
			true:  {"1", "1000000000", `"1"`, "tokens", "output_tokens-2", strings.Repeat("x", 64)},
			false: {"0", "-1", "1.5", "1000000001", `""`, "3x", "to kens", "[1]", "{a: 1}", strings.Repeat("x", 65)},
		},
		aLimit + "'%s'}]}}": {
			true: {"10/1m", "10/m", "10/5min", "3/week", "1k/1d12h", "1_000/90s", "5/1.5h", "gcra:10/1m",
				"token-bucket:10/1m,burst=20", "sliding-counter:10/1m,slices=60", "sliding-log:100/1h30m"},
			false: {"10/1month", "10/1mim", "10", "10/", "ten/1m", "10/1m,brust=20", "bucket:10/1m", "10 /1m",
				"10/1m/1h",
				"1_00/1m", "1.5/1m", "-1/1m"},
		},
		aLimit + "1/1s, algorithm: %s}]}}": {
			true: append(store.AlgorithmNames(), "gcra"), false: {"bucket"}},
		aLimit + "1/1s, burst: %s}]}}": {
			true: {"1", "1_000_000_000"}, false: {"0", "1000000001", "1.5"}},
		aLimit + "1/1h, algorithm: sliding-counter, slices: %s}]}}": {true: {"1", "3600"}, false: {"0", "3601"}},
		"breaker: {failures: %s}":                                   {true: {"1", "1000000"}, false: {"0", "1000001"}},
		"http: {ipv6_prefix: %s}":                                   {true: {"1", "128"}, false: {"0", "129"}},
		"policies: {p: {limits: [{name: a, by: [team], limit: 1/s}], http: {denied_status: %s}}}": {
			true: {"400", "599"}, false: {"399", "600"}},
		"breaker: {slow: '%s'}": {
			true:  {"500ms", "1s", "1m30s", "2min"},
			false: {"5", "soon", "1 s", "-1s"},
		},
	} {
		for want, texts := range values {
			for _, text := range texts {
				accepted(text, fmt.Appendf(nil, format, text), want)
			}
		}
	}
}

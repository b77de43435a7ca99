package configfile

import (
	"encoding/json"
	"strings"

	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// schemaDocument returns the JSON Schema of the configuration file, for checks and completion in editors. The reader is
// stricter: for example, a schema cannot detect a limit that is never reached.
func schemaDocument() map[string]any {
	document := schemaOf(fileObject())
	document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	document["$id"] = "https://raw.githubusercontent.com/limitctl/limitctl/main/docs/limitctl.schema.json"
	document["title"] = "limitctl.yaml"
	override := schemaOf(overrideObject())
	override["anyOf"] = []any{required("limit"), required("algorithm"), required("burst"), required("slices")}
	context := schemaOf(ContextObject())
	context["not"] = required("password_file", "password_env")
	document["$defs"] = map[string]any{
		"policy":           schemaOf(policyObject()),
		"breaker":          schemaOf(breakerObject()),
		"limit":            schemaOf(limitObject()),
		"override":         override,
		"context":          context,
		"layout":           schemaOf(LayoutObject()),
		"http":             schemaOf(httpObject()),
		"policy-http":      schemaOf(policyHTTPObject()),
		"skip":             schemaOf(skipObject()),
		"envoy-descriptor": schemaOf(envoyDescriptorObject()),
		"envoy-headers":    schemaOf(envoyHeadersObject()),
	}
	return document
}

// SchemaText returns the content of docs/limitctl.schema.json.
func SchemaText() ([]byte, error) {
	text, err := json.MarshalIndent(schemaDocument(), "", "  ")
	return append(text, '\n'), err
}

func required(names ...string) map[string]any { return map[string]any{"required": names} }

func schemaOf(o *yamlfile.Object) map[string]any {
	properties, needed := map[string]any{}, []string{}
	for _, f := range o.Fields {
		property := f.Schema()
		property["description"] = f.About
		properties[f.Name] = property
		if f.Required {
			needed = append(needed, f.Name)
		}
	}
	document := map[string]any{"type": "object", "description": o.About, "properties": properties, "additionalProperties": false}
	if len(needed) > 0 {
		document["required"] = needed
	}
	return document
}

func text() map[string]any { return map[string]any{"type": "string", "minLength": 1} }
func textOrNumber() map[string]any {
	return map[string]any{"type": []string{"string", "integer"}, "minLength": 1, "minimum": 1, "maximum": store.MaxCount}
}

// The forms of limits and durations. The reader also checks bounds, and which options go together.
const (
	durationForm = `([0-9]*(ms|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)|` +
		`[0-9.]+(d|ns|us|µs|μs|ms|s|m|h)([0-9.]+(ns|us|µs|μs|ms|s|m|h))*)`
	calendarForm = `[13]?mo|1?y|month|year`
	unitsForm    = `[0-9]+(_[0-9]{3})*[kKM]?`
)

// wrongForm is the field of a schema with what editors show in place of a pattern. It is not part of JSON Schema, and others ignore it.
const wrongForm = "patternErrorMessage"

func aDuration() map[string]any {
	return map[string]any{"type": "string", "pattern": "^" + durationForm + "$", wrongForm: "write a duration such as 500ms, 10s or 1h30m"}
}

func aLimit() map[string]any {
	algorithms := strings.Join(append(store.AlgorithmNames(), "gcra"), "|")
	// A folded text ends with a line break.
	return map[string]any{"type": "string", "pattern": "^((" + algorithms + "):)?" + unitsForm + "/(" + durationForm + "|" +
		calendarForm + ")(,(tz=[A-Za-z0-9_+/-]+|(burst|slices)=" + unitsForm + "|from=first))*\n?$",
		wrongForm: "write [ALGORITHM:]COUNT/PERIOD, such as 10/1m or fixed-window:100/1h"}
}

func yesOrNo() map[string]any { return map[string]any{"type": "boolean"} }

func aName() map[string]any {
	return map[string]any{"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_-]*$", "maxLength": policy.MaxNameLength}
}

// aCost is a number of units, or the name of a field.
func aCost() map[string]any {
	return map[string]any{"type": []string{"string", "integer"}, "pattern": "^([A-Za-z][A-Za-z0-9_-]*|" + unitsForm + ")$",
		"maxLength": policy.MaxNameLength, "minimum": 1, "maximum": store.MaxCount}
}

func countTo(most int) func() map[string]any { return numberFrom(1, most) }

func numberFrom(least, most int) func() map[string]any {
	return func() map[string]any {
		return map[string]any{"type": []string{"integer", "string"}, "pattern": "^" + unitsForm + "$", "minimum": least, "maximum": most}
	}
}

// aShare is a text with a percent sign, or a fraction, which may be a number.
func aShare() map[string]any {
	return map[string]any{"type": []string{"string", "number"}, "pattern": `^[0-9]+(\.[0-9]+)?%?$`, "minimum": 0.000001, "maximum": 1}
}

// aClasses is an attribute, and a share for each of its values.
func aClasses() map[string]any {
	share := aShare()
	share["minimum"], share["maximum"] = 0, 0.999999
	return map[string]any{"type": "object", "properties": map[string]any{"by": aName()}, "required": []string{"by"}, "minProperties": 2,
		"additionalProperties": share}
}

func object(definition string) func() map[string]any {
	return func() map[string]any { return reference(definition) }
}

func anAlgorithm() map[string]any {
	names := []string{"gcra"}
	for _, algorithm := range store.Algorithms() {
		names = append(names, algorithm.String())
	}
	return oneOf(names...)()
}

func oneOf(names ...string) func() map[string]any {
	return func() map[string]any { return map[string]any{"enum": names} }
}

func listOfTexts() map[string]any { return map[string]any{"type": "array", "items": text()} }

// textOrTexts is a text or a list of texts.
func textOrTexts() map[string]any {
	return map[string]any{"type": []string{"string", "array"}, "minLength": 1, "items": text(), "minItems": 1}
}

func listOfWords(words ...string) func() map[string]any {
	return func() map[string]any {
		return map[string]any{"type": "array", "items": oneOf(words...)()}
	}
}

// mapOfDescriptors maps domains to lists of descriptors, beside the options for all domains. A domain can have the name of an
// option.
func mapOfDescriptors() map[string]any {
	properties := schemaOf(envoyObject())["properties"].(map[string]any)
	for name, option := range properties {
		about := option.(map[string]any)["description"]
		properties[name] = map[string]any{"description": about, "anyOf": []any{option, listOf("envoy-descriptor")()}}
	}
	return map[string]any{"type": "object", "properties": properties, "additionalProperties": listOf("envoy-descriptor")()}
}

// entries maps the keys of a descriptor's entries to attributes, or to nothing; or is a list of keys, and of maps with one key.
func entries() map[string]any {
	attributes := func(most int) map[string]any {
		of := map[string]any{"type": "object", "minProperties": 1}
		of["additionalProperties"] = map[string]any{"type": []string{"string", "null"}}
		if most > 0 {
			of["maxProperties"] = most
		}
		return of
	}
	return map[string]any{"anyOf": []any{
		attributes(0),
		map[string]any{"type": "array", "minItems": 1, "items": map[string]any{"anyOf": []any{text(), attributes(1)}}},
	}}
}

func listOfNames() map[string]any {
	return map[string]any{"type": "array", "items": aName(), "minItems": 1, "uniqueItems": true}
}

func listOf(definition string) func() map[string]any {
	return func() map[string]any {
		return map[string]any{"type": "array", "items": reference(definition), "minItems": 1}
	}
}

func namedObjects(definition string) func() map[string]any {
	return func() map[string]any {
		return map[string]any{"type": "object", "propertyNames": aName(), "additionalProperties": reference(definition)}
	}
}

func mapOfTexts() map[string]any {
	return map[string]any{"type": "object", "propertyNames": aName(), "minProperties": 1,
		"additionalProperties": map[string]any{"type": []string{"string", "number", "boolean"}}}
}

func reference(definition string) map[string]any {
	return map[string]any{"$ref": "#/$defs/" + definition}
}

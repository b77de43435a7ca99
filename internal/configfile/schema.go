package configfile

import (
	"encoding/json"

	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// schemaDocument returns the JSON Schema of the configuration file, for checks and completion in editors. The reader is
// stricter: for example, a schema cannot detect a limit that is never reached.
func schemaDocument() map[string]any {
	document := schemaOf(fileObject())
	document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
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
func yesOrNo() map[string]any { return map[string]any{"type": "boolean"} }

func aName() map[string]any {
	return map[string]any{"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_-]*$", "maxLength": policy.MaxNameLength}
}

// aCost is a number of units, or the name of a field.
func aCost() map[string]any {
	return map[string]any{"type": []string{"string", "integer"}, "pattern": "^([A-Za-z][A-Za-z0-9_-]*|[0-9]+)$",
		"maxLength": policy.MaxNameLength, "minimum": 1, "maximum": store.MaxCount}
}

func countTo(most int) func() map[string]any { return numberFrom(1, most) }

func numberFrom(least, most int) func() map[string]any {
	return func() map[string]any {
		return map[string]any{"type": "integer", "minimum": least, "maximum": most}
	}
}

// aShare is a text with a percent sign, or a fraction, which may be a number.
func aShare() map[string]any {
	return map[string]any{"type": []string{"string", "number"}, "pattern": `^[0-9]+(\.[0-9]+)?%?$`, "minimum": 0.000001, "maximum": 1}
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

// mapOfDescriptors maps domains to lists of descriptors.
func mapOfDescriptors() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": listOf("envoy-descriptor")()}
}

// mapOfEntries maps the keys of a descriptor's entries to attributes, or to nothing.
func mapOfEntries() map[string]any {
	return map[string]any{"type": "object", "minProperties": 1, "additionalProperties": map[string]any{"type": []string{"string", "null"}}}
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

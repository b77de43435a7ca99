package config

import (
	"encoding/json"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// schema makes a JSON Schema. It is a function, so that each use has its own.
type schema func() map[string]any

// Schema returns the JSON Schema of the configuration file, which editors check
// and complete with. The reader is stricter: a schema cannot tell a limit that is
// never reached.
func Schema() map[string]any {
	document := fileObject().schema()
	document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	document["title"] = "limitctl.yaml"
	override := overrideObject().schema()
	override["anyOf"] = []any{required("limit"), required("algorithm"), required("burst")}
	context := contextObject().schema()
	context["not"] = required("password_file", "password_env")
	document["$defs"] = map[string]any{
		"policy":   policyObject().schema(),
		"limit":    limitObject().schema(),
		"override": override,
		"context":  context,
	}
	return document
}

// SchemaText returns the schema as docs/limitctl.schema.json holds it.
func SchemaText() ([]byte, error) {
	text, err := json.MarshalIndent(Schema(), "", "  ")
	return append(text, '\n'), err
}

func required(names ...string) map[string]any { return map[string]any{"required": names} }

func (o *object) schema() map[string]any {
	properties, needed := map[string]any{}, []string{}
	for _, f := range o.fields {
		property := f.schema()
		property["description"] = f.about
		properties[f.name] = property
		if f.required {
			needed = append(needed, f.name)
		}
	}
	document := map[string]any{"type": "object", "description": o.about, "properties": properties, "additionalProperties": false}
	if len(needed) > 0 {
		document["required"] = needed
	}
	return document
}

func text() map[string]any    { return map[string]any{"type": "string", "minLength": 1} }
func yesOrNo() map[string]any { return map[string]any{"type": "boolean"} }

func aName() map[string]any {
	return map[string]any{"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_-]*$", "maxLength": policy.MaxNameLength}
}

func aCount() map[string]any {
	return map[string]any{"type": "integer", "minimum": 1, "maximum": limiter.MaxCount}
}

func anAlgorithm() map[string]any {
	names := []string{"gcra"}
	for _, algorithm := range limiter.Algorithms() {
		names = append(names, algorithm.String())
	}
	return oneOf(names...)()
}

func oneOf(names ...string) schema {
	return func() map[string]any { return map[string]any{"enum": names} }
}

func listOfNames() map[string]any {
	return map[string]any{"type": "array", "items": aName(), "minItems": 1, "uniqueItems": true}
}

func listOf(definition string) schema {
	return func() map[string]any {
		return map[string]any{"type": "array", "items": reference(definition), "minItems": 1}
	}
}

func namedObjects(definition string) schema {
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

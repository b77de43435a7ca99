package cmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type document struct{ place, title, about string }

// documents are the JSON documents of the reference in its order: the place of the Go type with the field schema_version, which
// for a type without a name is the function around it, and what prints it.
var documents = []document{
	{decisionPlace, "A decision", "`check`, `consume`, `refund` and `settle`, and `/v1` of [serve](serve-api.md). " +
		"A limit of a policy also has " +
		"`limit`, its name in the policy, and `key`, its subject"},
	{"output/errorOnly", "An error", "every command and [serve](serve-api.md#answers). Next to a result, `error` is a field of it; the " +
		"[kinds](operations.md#for-programs) are a table of their own"},
	{"see/inspectAnswer.Document", "Keys in use", "`inspect`"},
	{"see/summaryAnswer", "Sums of keys", "`inspect --summary`"},
	{"see/denialsAnswer.Document", "Denials", "`denials`"},
	{"stepin/resetAnswer", "A reset", "`reset`"},
	{"stepin/undoAnswer", "An undo", "`undo`"},
	{"stepin/overrideAnswer", "Overrides", "`override list`, `set` and `revoke`, `block`, `unblock`, `exempt`"},
	{"see/handoverAnswer.Document", "A handover", "`handover`"},
	{"see/auditAnswer.Document", "The audit log", "`audit`"},
	{"stepin/backupsAnswer", "Backups", "`undo --list` and `undo --prune`"},
	{"see/doctorAnswer.Document", "An examination", "`doctor`"},
	{"report/Document", "A report", "`loadtest`, `verify`, `simulate` and `report`; [load testing](load-testing.md#as-json) " +
		"explains the figures"},
	{"report/Comparison", "A comparison", "`report --against`"},
	{"test/lookAnswer", "What a probe saw", "`probe`"},
	{"test/probeAnswer", "A probe of a limit", "`probe --limit`"},
	{"setup/validAnswer", "A validation", "`config validate`"},
	{"setup/explainAnswer", "An explanation", "`config explain`"},
	{"setup/showDocument", "What is configured", "`config show`"},
	{"setup/diffAnswer.Document", "A difference of configurations", "`config diff`"},
	{"setup/document", "A publication", "`config publish` and `config rollback`"},
	{"setup/fetchAnswer", "A published configuration", "`config fetch`"},
	{"setup/historyAnswer", "Published configurations", "`config history`"},
	{"setup/statusAnswer", "Who has which configuration", "`config status`"},
	{"setup/initAnswer", "A first configuration", "`config init`"},
	{"setup/importAnswer", "An import", "`config import`"},
	{"setup/contextsAnswer", "Contexts", "`context list`"},
	{"setup/contextAnswer", "A context", "`context show` and `context use`"},
	{"setup/serveAnswer", "A server that is ready", "`serve`"},
	{"setup/checkAnswer", "A server that could start", "`serve --check-config`"},
	{"serve/readiness", "The state of a server", "`/readyz` of serve"},
	{"api/subjectAnswer", "The limits of a subject", "`/v1/subject` of serve"},
	{"setup/versionAnswer", "The version", "`version`"},
}

// decisionPlace is where the document of a decision is written.
const decisionPlace = "decision/Document"

// notShown are documents that no user asks for, but parts of others.
var notShown = []string{"report/Read", "refusal/unknown"}

// rows are the items of lists whose type in Go is any.
var rows = map[string]string{
	"see/auditAnswer.Document.runs":         "auditlog/Entry",
	"see/denialsAnswer.Document.denials":    "see/denialDocument",
	"see/handoverAnswer.Document.overrides": "allowance/Document", "see/handoverAnswer.Document.changes": "auditlog/Entry",
}

// shared are the meanings of fields that mean the same in all documents, where the Go field says nothing.
var shared = map[string]string{
	"schema_version":    "1",
	"account":           "the machine's name of the user",
	"advice":            "what to do",
	"age_ms":            "how old it is",
	"algorithm":         "the rule by which usage fades: `token-bucket` and so on",
	"allowed":           "whether it is allowed",
	"answers":           "one for each key",
	"applied_override":  "the operator's override that applied",
	"asked":             "the limit without the override",
	"at":                "when",
	"at_least":          "whether keys with more kept it",
	"at_limit":          "keys at their limit",
	"attributes":        "of the policy, with their values",
	"backup":            "the file with what was changed",
	"backups":           "one for each backup",
	"began":             "when it began",
	"beyond":            "what a reset does not reach",
	"blocked":           "how many blocks denied, beside those denied by limits",
	"burst":             "the most units that a bucket holds",
	"by":                "who did it",
	"by_attribute":      "the attribute by which the share is chosen",
	"bytes":             "in the store",
	"carried":           "how many were carried over",
	"change":            "what changes",
	"changed":           "how many changed",
	"check":             "its name",
	"checks":            "one for each check",
	"column":            "of the line, from 1",
	"command":           "the command line, without secrets",
	"complete":          "whether all was looked at",
	"concerned":         "the keys in use that it concerns",
	"conflicts":         "what contradicts it",
	"context":           "the context in use",
	"contexts":          "the contexts, or how many",
	"classes":           "what each class of callers leaves to others",
	"cost":              "the units of the request",
	"count":             "the units of the limit in a period",
	"created_at":        "when it was made, by the store's clock",
	"current":           "the one in use",
	"date":              "of the commit",
	"decided_by":        "`store`, `local`, `failure-policy` or `override`",
	"defects":           "what is wrong with the keys of another limiter",
	"delay_ms":          "how long to wait for the turn of a leaky bucket",
	"denials":           "one for each key or value",
	"denied":            "how many were denied",
	"denied_by":         "the names of the limits that denied",
	"dialect":           "how the endpoint tells its limit",
	"dialects":          "all ways in which it tells it",
	"differences":       "one for each limit that differs",
	"directory":         "the folder",
	"drifted":           "keys under another limit than that of the configuration",
	"dry_run":           "whether nothing was changed on purpose",
	"effect":            "what it does",
	"ended":             "whether it has ended, or those that have",
	"endpoint":          "its URL without secrets",
	"error":             "what went wrong",
	"exact":             "whether the figures are exact and not estimated",
	"example":           "one of them",
	"examples":          "some of them",
	"expected":          "what would be right",
	"expires_at":        "when it ends, by the store's clock",
	"factor":            "how many times the limit",
	"failed":            "how many failed",
	"field":             "of the value",
	"files":             "the files that were read or written",
	"findings":          "one for each check",
	"first":             "the first of them",
	"gained":            "how many gained units",
	"given":             "whether `--limit` gave it",
	"go":                "the version of Go",
	"granted":           "the units that were taken",
	"groups":            "one for each group",
	"hash":              "of the text of the configuration",
	"hash_by":           "the attributes that choose the slot of a Cluster",
	"history":           "the latest first",
	"host":              "the machine",
	"id":                "its ID, for other commands",
	"interrupted":       "whether Ctrl-C ended it",
	"key":               "who is limited: the subject",
	"keys":              "the keys, or how many",
	"kind":              "which one, as a word",
	"last_at":           "when the last one was",
	"last_ms":           "how far back it looks",
	"layout":            "the layout of another limiter",
	"layouts":           "the layouts of other limiters",
	"leave":             "the units that the request leaves to other classes",
	"limit":             "as `--limit` takes it, or its name in the policy",
	"limits":            "the limits that are decided together",
	"line":              "of the file, from 1",
	"local_share":       "the share of each limit while the store is away",
	"loosened":          "for how many more is allowed",
	"lost":              "how many lost units",
	"matched":           "what was selected",
	"message":           "a line for people",
	"missing":           "what is not known",
	"mistakes":          "one for each mistake",
	"mixed":             "for how many some limits allow more and others less",
	"most_requests":     "the most that it can send",
	"most_time_ms":      "the longest that it can take",
	"n":                 "how often",
	"name":              "its name",
	"name_base64":       "the bytes of a name that is not UTF-8",
	"new":               "the limit afterwards",
	"no_ttl":            "whether it never expires, or how many never do",
	"notes":             "what else was seen",
	"now":               "the limit now",
	"old":               "the limit before",
	"on_error":          "what an unreachable store means",
	"origin":            "where it is from",
	"others":            "denials of keys without a row",
	"outcome":           "how it ended",
	"override":          "the number of the exception that applies, from 1",
	"overrides":         "the operators' overrides",
	"passed":            "whether the verdict is `pass`",
	"password_env":      "the variable with the password",
	"password_file":     "the file with the password",
	"path":              "of the file",
	"percent":           "the share in percent",
	"period_ms":         "the period of the limit",
	"pid":               "its number on its machine",
	"platform":          "the system and the processor",
	"policies":          "the policies, or how many",
	"policy":            "the name of the policy",
	"prefix":            "what the store's keys begin with",
	"processes":         "one for each process",
	"program":           "its name and version",
	"protected":         "whether a destructive command needs its name",
	"published":         "whether something was published",
	"read_only":         "whether no command may write",
	"reason":            "why, in the words of who did it",
	"reasons":           "why it did not pass",
	"records":           "the keys of the backup",
	"remaining":         "the largest cost that would be allowed now",
	"removed":           "how many were removed",
	"repeated":          "an earlier call with the same token was charged, and this one was not",
	"requests":          "how many were sent",
	"reset_after_ms":    "the time until nothing is used, if nobody takes",
	"restored":          "how many were brought back",
	"retry_after_ms":    "the time until the same request is allowed",
	"runs":              "one for each run",
	"seen":              "what was seen",
	"selection":         "what was selected, in the words of a command line",
	"servers":           "one for each server",
	"shadow":            "the limit counts and never denies",
	"since":             "when its denials began",
	"slices":            "the parts in which a sliding counter counts",
	"steps":             "what would be done",
	"store":             "the store's URL without a password",
	"store_id":          "identifies the store",
	"store_key":         "the key in the store",
	"store_key_base64":  "its bytes, if they are not UTF-8",
	"store_keys":        "the keys in the store, or how many",
	"store_keys_base64": "their bytes, if one is not UTF-8",
	"subject":           "who is limited",
	"summary":           "a line for people",
	"text":              "a line for people",
	"then":              "the limit afterwards",
	"thresholds":        "the promises, and whether they were kept",
	"tightened":         "for how many less is allowed",
	"timeout":           "how long to wait for the store",
	"to_remaining":      "what `--to-remaining` asked for",
	"type":              "of the value in Redis",
	"unchanged":         "for how many nothing changes",
	"unguarded":         "the store was away, and nothing was counted",
	"units":             "the units of the effect",
	"unknown":           "how many have an unknown outcome",
	"unsure":            "keys that may be of another limiter, and were left out",
	"until":             "when it ends",
	"used":              "the units that count against the limit now",
	"valid":             "whether there is no mistake",
	"value":             "its value",
	"verdict":           "`pass`, `fail` or `inconclusive`",
	"version":           "its version",
	"wait":              "how long `serve` holds a request until its turn",
	"when":              "the attributes with which it applies",
	"window_ends_at":    "when the window of a calendar ends: RFC 3339 by the clocks of its zone",
	"whole":             "whether the file is complete",
	"writer":            "who writes such keys",
}

// docs/json.md has each JSON document, and the schema their fields as the Go types have them; `make docs` writes both.
func TestTheDocumentsAreUpToDate(t *testing.T) {
	g := readGo(t)
	for _, place := range g.versioned {
		if !slices.Contains(notShown, place) && !slices.ContainsFunc(documents, func(d document) bool { return d.place == place }) {
			t.Errorf("the document %s has no place in the reference; add it to documents", place)
		}
	}
	b := strings.Builder{}
	b.WriteString(documentsIntro)
	schemas := map[string]any{}
	for _, d := range documents {
		if !slices.Contains(g.versioned, d.place) {
			t.Errorf("there is no document %s", d.place)
			continue
		}
		name := strings.ReplaceAll(strings.ToLower(d.title), " ", "-")
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, d.about)
		schemas[name] = g.schema(t, d.place, nil)
	}
	text, err := json.MarshalIndent(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"$id":     "https://raw.githubusercontent.com/limitctl/limitctl/main/docs/limitctl.output.schema.json",
		"title":   "The JSON documents that limitctl prints", "$defs": schemas,
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"../docs/json.md": b.String(), "../docs/limitctl.output.schema.json": string(text) + "\n",
	} {
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not up to date, %v; `make docs` writes it", path, err)
		}
	}
}

const documentsIntro = `# JSON documents

Written by ` + "`make docs`" + ` from the program; a test holds it up to date.

With ` + "`-o json`" + ` a command prints one document. With ` + "`-o jsonl`" + ` it prints a document a line: the
items of its list if it has one. ` + "`--jq`" + ` takes parts of it ([for programs](operations.md#for-programs)).

- Fields may be added. They are never renamed, and never change their meaning: ` + "`schema_version`" + ` would say so.
- Durations end in ` + "`_ms`" + `: whole milliseconds, rounded up. A time is RFC 3339 in UTC.
- A field that is not required is left out if there is nothing to say. ` + "`null`" + ` is what is not known.
- Beside a result stand ` + "`error`" + `, and ` + "`config`" + ` if a configuration is published: its ` + "`version`" +
	" (none for a file) and `source`" + `, which is ` + "`store`" + `, ` + "`kept`" + ` (the store is away) or the file of a what-if.

[limitctl.output.schema.json](limitctl.output.schema.json) has each document in ` + "`$defs`" + `, as JSON Schema: its fields, their
types and what they mean. ` + "`jq '.\"$defs\".\"a-decision\"' limitctl.output.schema.json`" + ` shows one. The configuration has a
[schema](limitctl.schema.json) of its own.

| in ` + "`$defs`" + ` | printed by |
|---|---|
`

// schema is the JSON Schema of a struct.
func (g *goTypes) schema(t *testing.T, place string, above []string) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range g.fields(place) {
		kind, inner := g.kindOf(f, place)
		var below any
		if inner != "" && !slices.Contains(above, inner) {
			below = g.schema(t, inner, append(above, place))
		}
		property := schemaOf(kind, below)
		meaning := cmp.Or(f.meaning, shared[f.name])
		if meaning == "" && !strings.HasPrefix(append(above, place)[0], "report/") { // load-testing.md explains the figures
			t.Errorf("%s.%s has no meaning; write it at the field in Go", place, f.name)
		}
		if meaning != "" && f.name != "schema_version" {
			property["description"] = meaning
		}
		properties[f.name] = property
		if !f.optional {
			required = append(required, f.name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

// schemaOf is the schema of a JSON type in the words of the page; below is that of the objects in it.
func schemaOf(kind string, below any) map[string]any {
	if inner, is := strings.CutSuffix(kind, " or null"); is {
		return map[string]any{"anyOf": []any{schemaOf(inner, below), map[string]any{"type": "null"}}}
	}
	if inner, is := strings.CutPrefix(kind, "list of "); is {
		return map[string]any{"type": []string{"array", "null"}, "items": schemaOf(inner, below)}
	}
	if inner, is := strings.CutPrefix(kind, "object of "); is {
		return map[string]any{"type": "object", "additionalProperties": schemaOf(inner, below)}
	}
	switch kind {
	case "text", "base64":
		return map[string]any{"type": "string"}
	case "time":
		return map[string]any{"type": "string", "format": "date-time"}
	case "whole number":
		return map[string]any{"type": "integer"}
	case "number", "boolean":
		return map[string]any{"type": kind}
	}
	if below, is := below.(map[string]any); is {
		return maps.Clone(below)
	}
	return map[string]any{}
}

// What commands print has the fields that the reference says, and no others.
func TestDocumentsHaveTheFieldsOfTheReference(t *testing.T) {
	g := readGo(t)
	w := newWorld(t)
	policies := filepath.Join(t.TempDir(), "limitctl.yaml")
	text := "policies: {api: {limits: [{name: ip, by: [ip], limit: 10/1m}, {name: user, by: [user], limit: 5/1m}]}}\n"
	if err := os.WriteFile(policies, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range []struct {
		place string
		code  int
		args  string
	}{
		{decisionPlace, exitYes, "consume user:42 --limit 3/1h"},
		{decisionPlace, exitYes, "consume --policy api ip=192.0.2.1 user=7 --config " + policies},
		{decisionPlace, exitNo, "consume user:42 --limit 3/1h --cost 3 --count-denials"},
		{"output/errorOnly", exitUsage, "check user:42 --limit 3"},
		{"see/inspectAnswer.Document", exitYes, "inspect *"},
		{"see/summaryAnswer", exitYes, "inspect * --summary"},
		{"see/denialsAnswer.Document", exitYes, "denials"},
		{"stepin/overrideAnswer", exitYes, "override set user:* --times 2 --for 1h --reason launch --yes"},
		{decisionPlace, exitYes, "check user:42 --limit 3/1h"},
		{"stepin/resetAnswer", exitYes, "reset user:* --yes"},
		{"see/handoverAnswer.Document", exitYes, "handover"},
		{"see/auditAnswer.Document", exitYes, "audit"},
		{"stepin/undoAnswer", exitYes, "undo --yes"},
		{"see/doctorAnswer.Document", exitYes, "doctor"},
		{"report/Document", exitYes, "simulate - --limit 3/1m"},
		{"setup/explainAnswer", exitYes, "config explain --policy api ip=192.0.2.1 user=7 --config " + policies},
	} {
		w.In = strings.NewReader(`{"time":"2026-11-09T00:10:00Z","key":"a"}` + "\n")
		stdout, _ := w.run(t, c.code, append(strings.Fields(c.args), "-o", "json")...)
		var document any
		if err := json.Unmarshal([]byte(stdout), &document); err != nil {
			t.Fatalf("limitctl %s prints %s: %v", c.args, stdout, err)
		}
		if top, is := document.(map[string]any); is && c.place != "output/errorOnly" {
			delete(top, "error") // which any document can have beside its result
		}
		for _, wrong := range g.compare(document, c.place, "") {
			if !seen[c.place+wrong] {
				seen[c.place+wrong] = true
				t.Errorf("limitctl %s: %s", c.args, wrong)
			}
		}
	}
}

// compare returns the differences between a document and its type in the reference.
func (g *goTypes) compare(value any, place, at string) (wrong []string) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			wrong = append(wrong, g.compare(item, place, at+"[]")...)
		}
	case map[string]any:
		fields := g.fields(place)
		for _, f := range fields {
			inside, is := value[f.name]
			if !is && !f.optional {
				wrong = append(wrong, fmt.Sprintf("%s has no %s", at, f.name))
			}
			kind, inner := g.kindOf(f, place)
			if inner == "" || !is {
				continue
			}
			if _, is := inside.(map[string]any); is && strings.HasPrefix(kind, "object of") {
				inside = slices.Collect(maps.Values(inside.(map[string]any)))
			}
			wrong = append(wrong, g.compare(inside, inner, at+"."+f.name)...)
		}
		for name := range value {
			if !slices.ContainsFunc(fields, func(f goField) bool { return f.name == name }) {
				wrong = append(wrong, fmt.Sprintf("%s has %s, which the reference does not have", at, name))
			}
		}
	}
	return wrong
}

package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

type document struct{ place, title, about string }

// documents are the JSON documents of the reference in its order: the place of the Go type with the field
// schema_version, which for a type without a name is the function around it, and what prints it.
var documents = []document{
	{decisionPlace, "A decision", "`check`, `consume`, `refund` and `settle`, and `/v1` of [serve](serve-api.md). " +
		"A limit of a policy also has " +
		"`limit`, its name in the policy, and `key`, its subject"},
	{"output/errorOnly", "An error",
		"every command and [serve](serve-api.md#answers). Next to a result, `error` is a field of it; the " +
			"[kinds](operations.md#for-programs) are a table of their own"},
	{"see/inspectAnswer.Document", "Keys in use", "`inspect`"},
	{"see/summaryAnswer", "Sums of keys", "`inspect --summary`"},
	{"see/denialsAnswer.Document", "Denials", "`denials`"},
	{"stepin/resetAnswer", "A reset", "`reset`"},
	{"stepin/undoAnswer", "An undo", "`undo`"},
	{"stepin/overrideAnswer", "Overrides", "`override list`, `set` and `revoke`, `block`, `unblock`, `exempt`"},
	{"see/handoverAnswer", "A handover", "`handover`"},
	{"see/auditAnswer", "The audit log", "`audit`"},
	{"stepin/backupsAnswer", "Backups", "`undo --list` and `undo --prune`"},
	{"see/doctorAnswer.Document", "An examination", "`doctor`"},
	{"report/Document", "A report", "`loadtest`, `verify`, `simulate` and `report`; [load " +
		"testing](load-testing.md#as-json) " +
		"explains the figures"},
	{"report/Comparison", "A comparison", "`report --against`"},
	{"test/lookAnswer", "What a probe saw", "`probe`"},
	{"test/probeAnswer", "A probe of a limit", "`probe --limit`"},
	{"setup/validAnswer", "A validation", "`config validate`"},
	{"setup/explainAnswer", "An explanation", "`config explain`"},
	{"setup/diffAnswer", "A difference of configurations", "`config diff`"},
	{"setup/publishAnswer", "A publication", "`config publish` and `config rollback`"},
	{"setup/fetchAnswer", "A published configuration", "`config fetch`"},
	{"setup/historyAnswer", "Published configurations", "`config history`"},
	{"setup/statusAnswer", "Who has which configuration", "`config status`"},
	{"setup/importAnswer", "An import", "`config import`"},
	{"setup/contextsAnswer", "Contexts", "`context list`"},
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

// rows are the items of what is a list, and any in Go.
var rows = map[string]string{
	"see/denialsAnswer.Document.denials": "see/keyDenials",
	"see/denialSums.denials":             "see/keyDenials",
}

// shared are the meanings of fields that mean the same in all documents, where neither the name nor the Go field says
// them.
var shared = map[string]string{
	"account":          "the machine's name of the user",
	"applied_override": "the operator's override that applied",
	"asked":            "the limit without the override",
	"at_limit":         "keys at their limit",
	"burst":            "the most units that a bucket holds",
	"created_at":       "when it was made, by the store's clock",
	"decided_by":       "`store`, `local`, `failure-policy` or `override`",
	"delay_ms":         "how long to wait for the turn of a leaky bucket",
	"denied_by":        "the names of the limits that denied",
	"drifted":          "keys under another limit than that of the configuration",
	"expires_at":       "when it ends, by the store's clock",
	"granted":          "the units that were taken",
	"hash_by":          "the attributes that choose the slot of a Cluster",
	"key":              "who is limited: the subject",
	"last_ms":          "how far back it looks",
	"leave":            "the units that the request leaves to other classes",
	"limit":            "as `--limit` takes it, or its name in the policy",
	"local_share":      "the share of each limit while the store is away",
	"new":              "the limit afterwards",
	"no_ttl":           "whether it never expires, or how many never do",
	"now":              "the limit now",
	"old":              "the limit before",
	"on_error":         "what an unreachable store means",
	"others":           "denials of keys without a row",
	"override":         "the number of the exception that applies, from 1",
	"period_ms":        "the period of the limit",
	"remaining":        "the largest cost that would be allowed now",
	"repeated":         "an earlier call with the same token was charged, and this one was not",
	"reset_after_ms":   "the time until nothing is used, if nobody takes",
	"retry_after_ms":   "the time until the same request is allowed",
	"selection":        "what was selected, in the words of a command line",
	"shadow":           "the limit counts and never denies",
	"since":            "when its denials began",
	"slices":           "the parts in which a sliding counter counts",
	"store":            "the store's URL without a password",
	"store_key":        "the key in the store",
	"then":             "the limit afterwards",
	"unguarded":        "the store was away, and nothing was counted",
	"unsure":           "keys that may be of another limiter, and were left out",
	"used":             "the units that count against the limit now",
	"verdict":          "`pass`, `fail` or `inconclusive`",
	"wait":             "how long `serve` holds a request until its turn",
	"window_ends_at":   "when the window of a calendar ends: RFC 3339 by the clocks of its zone",
}

// docs/json.md has each JSON document, and the schema their fields as the Go types have them; `make docs` writes both.
func TestTheDocumentsAreUpToDate(t *testing.T) {
	g := readGo(t)
	for _, place := range g.versioned {
		if !slices.Contains(notShown, place) &&
			!slices.ContainsFunc(documents, func(d document) bool { return d.place == place }) {
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
		fmt.Fprintf(&b, "- `%s`: %s\n", name, d.about)
		schemas[name] = g.schema(d.place)
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

With ` + "`-o json`" + ` a command prints one document, and with ` + "`-o jsonl`" + ` the items of its list, one a line. ` + "`--jq`" + `
takes parts of it ([for programs](operations.md#for-programs)).

- Fields may be added. They are never renamed, and never change their meaning: ` + "`schema_version`" + ` would say so.
- Durations end in ` + "`_ms`" + `: whole milliseconds, rounded up. A time is RFC 3339 in UTC.
- A field that is not required is left out if there is nothing to say. ` + "`null`" + ` is what is not known.
- Beside a result stand ` + "`error`" + `, and ` + "`config`" + ` if a configuration is published: its ` + "`version`" +
	" (none for a file) and `source`" + `, which is ` + "`store`" + `, ` + "`kept`" +
	` (the store is away) or the file of a what-if.

[limitctl.output.schema.json](limitctl.output.schema.json) has each document in ` + "`$defs`" + `, as JSON Schema: its
fields, their types and what they mean. ` + "`jq '.\"$defs\".\"a-decision\"' limitctl.output.schema.json`" + ` shows one.
The configuration has a [schema](limitctl.schema.json) of its own. These print them:

`

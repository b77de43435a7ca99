// Package report is the result of a load test or a simulation: the document as it is saved and read, its judgement by
// audits and thresholds, what became worse since earlier ones, and what people and programs read of it.
package report

import (
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// Document is the result of a load test or a simulation: one run for each limit or
// policy that was tried. Fields may be added, never renamed.
type Document struct {
	SchemaVersion int  `json:"schema_version"`
	Kind          Kind `json:"kind"`
	// Verdict is [Fail] if the audit of a run failed or a promise was not kept, else
	// [Inconclusive] if too little was seen, and else [Pass], for which alone Passed is true.
	// Reasons say why, a sentence each. They follow from what else there is: they
	// are set when the document is written, and not read.
	Verdict Verdict  `json:"verdict"`
	Passed  bool     `json:"passed"`
	Reasons []string `json:"reasons"`
	// MaxErrors is the share of the planned requests of a run that may get no decision; nil for the
	// default of 1 %.
	MaxErrors   *float64    `json:"max_errors,omitempty"`
	Interrupted bool        `json:"interrupted"`
	Runs        []Run       `json:"runs"`
	Thresholds  []Threshold `json:"thresholds"`
	// Suggestions are the smallest counts that keep a promise.
	Suggestions []Suggestion `json:"suggestions,omitempty"`
}

// New returns an empty Document of a kind.
func New(kind Kind) *Document {
	return &Document{SchemaVersion: output.SchemaVersion, Kind: kind, Runs: []Run{}, Thresholds: []Threshold{}}
}

// Kind says where a document is from.
type Kind string

const (
	LoadTest   Kind = "loadtest"
	Simulation Kind = "simulate"
)

// Run is the result of one load under one limit or one policy.
type Run struct {
	// Algorithm is that of the limit; of several limits, those that differ are
	// joined by "+".
	Algorithm string `json:"algorithm"`
	// Limit is the limit in words, several joined by " and ".
	Limit  string `json:"limit"`
	Policy string `json:"policy,omitempty"`
	// Implementation is "script", or "naive" for several commands and no script.
	Implementation string `json:"implementation,omitempty"`
	// Store is which store it was, without passwords.
	Store string `json:"store"`
	// Server is the kind and the version of what decided, such as "Redis 7.0.15"; empty if
	// it is not known.
	Server string `json:"server,omitempty"`
	// Load is the load in words, such as "1000/s, over 50 keys (zipf:1.2)".
	Load string `json:"load"`
	// Scenario is the built-in pattern that it was, if any.
	Scenario string `json:"scenario,omitempty"`
	Workers  int    `json:"workers,omitempty"`
	// Seed is what all random choices of the load followed from; nil where nothing was
	// chosen.
	Seed *uint64 `json:"seed,omitempty"`
	// Rate is the arrivals asked for in a second, on average; 0 for a closed loop.
	Rate float64 `json:"rate"`

	loadgen.Result

	// MostDenied is the keys denied most often, at most ten.
	MostDenied []KeyCount `json:"most_denied"`
	// Wrapped is what wrappers around the store saved, and what that cost; nil without any.
	Wrapped *Wrapped `json:"wrapped,omitempty"`
	// Statuses is how many answers there were of each status, warm-up included, and Endpoint
	// what else is known of one; both are absent for a store.
	Statuses map[string]int64 `json:"statuses,omitempty"`
	Endpoint *Endpoint        `json:"endpoint,omitempty"`
	// Impossible is how many answers no store gives, warm-up included, and the first of them.
	Impossible loadgen.ErrorCount `json:"impossible_answers,omitzero"`
	// Warnings is what a reader must know before trusting the figures.
	Warnings []string `json:"warnings,omitempty"`
}

// KeyCount is how many requests of one subject were allowed and denied.
type KeyCount struct {
	Key     string `json:"key"`
	Allowed int64  `json:"allowed"`
	Denied  int64  `json:"denied"`
}

// Verdict is what a difference means.
type Verdict string

// Threshold is a promise, such as "p99<5ms", and whether each run kept it.
type Threshold struct {
	Expression string `json:"expression"`
	// Run is the index of the run it was held against.
	Run    int    `json:"run"`
	Actual string `json:"actual"` // in the expression's unit
	OK     bool   `json:"ok"`
	// NotJudged is why the promise was neither kept nor missed; empty if it was judged.
	NotJudged string `json:"not_judged,omitempty"`
}

// Suggestion is the least count of a limit that keeps a promise.
type Suggestion struct {
	Promise   string `json:"promise"`
	Kept      bool   `json:"kept"`
	Algorithm string `json:"algorithm"`
	Limit     string `json:"limit"`
	Count     int64  `json:"count"` // the greatest that there is, if the promise is not kept
	Actual    string `json:"actual"`
	// Below is the figure of one unit less, absent if there is no such limit.
	Below string `json:"one_less,omitempty"`
}

// fromMS returns milliseconds as a duration. What a file can say may be too long for one, and for the sum of two.
func fromMS[N int64 | float64](ms N) time.Duration {
	const longest = 1 << 61
	return time.Duration(min(float64(ms)*float64(time.Millisecond), longest))
}

// Endpoint is what is known of a run whose limit somebody else decided.
type Endpoint struct {
	// WrongHeaders is which fields about limits were missing, cannot be read or contradict one another, a sentence
	// each.
	WrongHeaders []string `json:"wrong_headers,omitempty"`
	// Connections is about the connections that were opened.
	Connections *Connections `json:"connections,omitempty"`
}

// Connections are those that a run opened.
type Connections struct {
	Opened int64 `json:"opened"`
	// Connect is how long it took to reach the other side, and TLS to agree on encryption
	// after that. No service time has them in it.
	Connect *loadgen.Quantiles `json:"connect_us,omitempty"`
	TLS     *loadgen.Quantiles `json:"tls_us,omitempty"`
}

// Naive is the implementation with several commands instead of a script.
const Naive = "naive"

// NoStore is the store of a simulation, which has none.
const NoStore = "none"

// MostDeniedKeys is how many keys a document lists.
const MostDeniedKeys = 10

// Named is a document and the file that it is from.
type Named struct {
	Name string
	*Document
}

// Wrapped is what wrappers around the store of a simulation saved, and what that cost in accuracy.
type Wrapped struct {
	// Replicas is how many instances of the wrappers there were, and Wrap what was put
	// around the store, from outside in.
	Replicas int      `json:"replicas"`
	Wrap     []string `json:"wrap"`
	// StoreCalls is the calls of the store, those that gave units back included.
	StoreCalls       int64   `json:"store_calls"`
	CallsPerDecision float64 `json:"store_calls_per_decision"`
}

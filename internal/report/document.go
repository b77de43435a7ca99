// Package report is the result of a load test or a simulation: the document as it is saved and read, its judgement by audits
// and thresholds, what became worse since earlier ones, and what people and programs read of it.
package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/limitctl/limitctl/internal/output"
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
	Origin      *Origin     `json:"origin,omitempty"`
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
	// Load is the load in words, such as "1000/s poisson over 50 keys, zipf:1.2".
	Load string `json:"load"`
	// Scenario is the built-in pattern that it was, if any.
	Scenario string `json:"scenario,omitempty"`
	Workers  int    `json:"workers,omitempty"`
	// Seed is what all random choices of the load followed from; nil where nothing was
	// chosen.
	Seed *uint64 `json:"seed,omitempty"`
	// Rate is the arrivals asked for in a second, on average; 0 for a closed loop.
	Rate      float64   `json:"rate"`
	StartedAt time.Time `json:"started_at"` // of a simulation, the first request's instant

	Figures

	// Timeline is what happened in each interval of the run.
	Timeline   []Interval `json:"timeline"`
	IntervalMS int64      `json:"interval_ms"`
	// Busiest is how many requests the subject sent that sent most.
	Busiest int64 `json:"busiest_key_requests"`
	// MostDenied is the keys denied most often, at most ten.
	MostDenied []KeyCount `json:"most_denied"`
	// Neighbours is the requests of all keys but the noisy one, in the scenario
	// noisy-neighbour.
	Neighbours *KeyCount `json:"neighbours,omitempty"`
	// Wrapped is what wrappers around the store saved, and what that cost; nil without any.
	Wrapped *Wrapped `json:"wrapped,omitempty"`
	// Statuses is how many answers there were of each status, warm-up included, and Endpoint
	// what else is known of one; both are absent for a store.
	Statuses map[string]int64 `json:"statuses,omitempty"`
	Endpoint *Endpoint        `json:"endpoint,omitempty"`
	// Impossible is how many answers no store gives, warm-up included, and the first of them.
	Impossible ErrorCount `json:"impossible_answers,omitzero"`
	// ErrorTexts is the commonest errors, at most five.
	ErrorTexts []ErrorCount `json:"error_texts,omitempty"`
	// Warnings is what a reader must know before trusting the figures.
	Warnings []string `json:"warnings,omitempty"`

	// Histograms is nil where a document was printed and not saved.
	Histograms *Histograms `json:"histograms,omitempty"`
}

// Figures are the numbers of a run: all that a promise can be about. While a run is
// under way its figures are of what was answered so far.
type Figures struct {
	// Requests is those that were sent: allowed, denied, or ended in an error.
	Requests int64 `json:"requests"`
	// Allowed and Denied are what the limit itself decided.
	Allowed int64 `json:"allowed"`
	Denied  int64 `json:"denied"`
	Errors  int64 `json:"errors"`
	// Unknown is how many of the errors may have been charged all the same, and TimedOut how
	// many were requests that were not answered in time.
	Unknown  int64 `json:"unknown"`
	TimedOut int64 `json:"timed_out,omitempty"`
	// Dropped is the arrivals that could not be sent in time.
	Dropped int64 `json:"dropped"`
	// Late is the requests answered more than LateAfterMS after they were due.
	Late        int64 `json:"late"`
	LateAfterMS int64 `json:"late_after_ms,omitempty"`
	// Keys is the subjects that asked for something, KeysDenied those of them that
	// were denied at least once.
	Keys       int64 `json:"keys"`
	KeysDenied int64 `json:"keys_denied"`
	DurationMS int64 `json:"duration_ms"`
	// WarmupMS is the part of DurationMS, at its beginning, in which requests were only
	// audited. No other figure counts them.
	WarmupMS int64 `json:"warmup_ms,omitempty"`
	// ThroughputPerS is the decisions in a second: requests allowed or denied.
	ThroughputPerS float64 `json:"throughput_per_s"`

	// Latency is from when a request was due until its answer, Service from when it
	// was sent, of requests allowed or denied. AllowedService and DeniedService are the Service
	// of each. ErrorLatency is from when a request was due until its error. Lag is how much later
	// than due the generator itself was ready to send. A simulation has none of them.
	Latency        *Quantiles `json:"latency_us,omitempty"`
	Service        *Quantiles `json:"service_us,omitempty"`
	AllowedService *Quantiles `json:"allowed_service_us,omitempty"`
	DeniedService  *Quantiles `json:"denied_service_us,omitempty"`
	ErrorLatency   *Quantiles `json:"error_latency_us,omitempty"`
	Lag            *Quantiles `json:"schedule_lag_us,omitempty"`
	// GeneratorLimited: the generator, not the store, was the limit, and the
	// figures are about the machine it ran on.
	GeneratorLimited bool `json:"generator_limited"`

	Audit  Audit   `json:"audit"`
	Limits []Limit `json:"limits"` // each of the limits decided together
	Cost   *Cost   `json:"cost,omitempty"`
	// Clock is what was found of the clock that decided; nil where nothing could be.
	Clock *StoreClock `json:"clock,omitempty"`
}

// Quantiles are of a distribution of times, in whole microseconds.
type Quantiles struct {
	P50   int64 `json:"p50"`   // half took at most that
	P90   int64 `json:"p90"`   // 90 % took at most that
	P95   int64 `json:"p95"`   // 95 %
	P99   int64 `json:"p99"`   // 99 %
	P999  int64 `json:"p999"`  // 99.9 %
	P9999 int64 `json:"p9999"` // 99.99 %
	Max   int64 `json:"max"`   // the longest
	Mean  int64 `json:"mean"`  // the mean
}

// Cost is what one decision took of the server, the network and this process. A figure
// that is not known is nil.
type Cost struct {
	// ServerCPU is the server's time in the commands of a decision.
	ServerCPU *float64 `json:"server_cpu_us,omitempty"`
	// RoundTrips is the exchanges with the server for a decision; below 1 where
	// callers share them.
	RoundTrips *float64 `json:"round_trips,omitempty"`
	// Commands is the commands that the server ran for a decision, scripts' own
	// included.
	Commands *float64 `json:"commands,omitempty"`
	// NetworkIn and NetworkOut are the bytes that the server received and sent.
	NetworkIn  *float64 `json:"network_in_bytes,omitempty"`
	NetworkOut *float64 `json:"network_out_bytes,omitempty"`
	// BytesPerKey is the store's memory for a key, on average, and BytesPerUnit for
	// each unit in a sliding log.
	BytesPerKey  *float64 `json:"bytes_per_key,omitempty"`
	BytesPerUnit *float64 `json:"bytes_per_unit,omitempty"`
	// ClientCPU is this process's time.
	ClientCPU *float64 `json:"client_cpu_us,omitempty"`
	// Others is the commands that other clients of the server sent meanwhile, if they were so many that
	// the server's figures are partly theirs.
	Others int64 `json:"commands_of_others,omitempty"`
}

// Interval is what happened in one interval of the timeline.
type Interval struct {
	OffsetMS int64 `json:"offset_ms"` // of its beginning, from the run's
	Allowed  int64 `json:"allowed"`
	Denied   int64 `json:"denied"`
	Errors   int64 `json:"errors"`
	Dropped  int64 `json:"dropped"`
	// P50, P99 and Max are of the latency of all requests, errors included, in
	// microseconds.
	P50 int64 `json:"p50_us"`
	P99 int64 `json:"p99_us"`
	Max int64 `json:"max_us"`
}

// KeyCount is how many requests of one subject were allowed and denied.
type KeyCount struct {
	Key     string `json:"key"`
	Allowed int64  `json:"allowed"`
	Denied  int64  `json:"denied"`
}

// ErrorCount is how often there was an error.
type ErrorCount struct {
	// Text is the error, in words that are the same for equal errors.
	Text string `json:"text"`
	// Count is how many requests had it.
	Count int64 `json:"count"`
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
	// Subjects is what subjects were called in this run, with a * for what differs, so that
	// they can be found in the endpoint's logs. FirstSubject is one of them.
	Subjects     string `json:"subjects,omitempty"`
	FirstSubject string `json:"first_subject,omitempty"`
	// WrongHeaders is which fields about limits were missing, cannot be read or contradict one another, a sentence each.
	WrongHeaders []string `json:"wrong_headers,omitempty"`
	// Connections is about the connections that were opened.
	Connections *Connections `json:"connections,omitempty"`
}

// Connections are those that a run opened.
type Connections struct {
	Opened int64 `json:"opened"`
	// Connect is how long it took to reach the other side, and TLS to agree on encryption
	// after that. No service time has them in it.
	Connect *Quantiles `json:"connect_us,omitempty"`
	TLS     *Quantiles `json:"tls_us,omitempty"`
}

// Histograms are the distributions behind a run's quantiles, in microseconds. A histogram that the run does not have is nil.
//
// In JSON each is a text: the V2 compressed encoding of HdrHistogram in base64, which
// other HdrHistogram tools read, too.
type Histograms struct {
	Latency, Service, Errors, Lag *hdrhistogram.Histogram
}

// Origin is what made a document, so that somebody else can make it again.
type Origin struct {
	// Version is that of limitctl, and Command the command line, without secrets.
	Version string `json:"version"`
	Command string `json:"command"`
	// Host is the name of the machine that sent the load, empty if it is not known. CPUs is
	// how many of its processors limitctl used, and Platform is such as linux/amd64.
	Host     string `json:"host,omitempty"`
	Platform string `json:"platform,omitempty"`
	CPUs     int    `json:"cpus,omitempty"`
}

// Naive is the implementation with several commands instead of a script.
const Naive = "naive"

// NoStore is the store of a simulation, which has none.
const NoStore = "none"

// The most of each that a document lists.
const (
	MostDeniedKeys = 10
	mostErrorTexts = 5
)

// Named is a document and the file that it is from.
type Named struct {
	Name string
	*Document
}

// Add adds the counts of another interval, and takes over the worse of its latencies.
func (i *Interval) Add(other *Interval) {
	i.Allowed += other.Allowed
	i.Denied += other.Denied
	i.Errors += other.Errors
	i.Dropped += other.Dropped
	i.P50, i.P99, i.Max = max(i.P50, other.P50), max(i.P99, other.P99), max(i.Max, other.Max)
}

// Commonest returns the errors that there were most often.
func Commonest(texts map[string]int64) (all []ErrorCount) {
	for text, count := range texts {
		all = append(all, ErrorCount{text, count})
	}
	slices.SortFunc(all, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text))
	})
	return all[:min(len(all), mostErrorTexts)]
}

package live

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/decision"
	"github.com/limitctl/limitctl/internal/output"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// snapshot is what one look at the store brought: the data of one frame.
type snapshot struct {
	Time  time.Time `json:"time"`
	Store string    `json:"store"`
	// Layouts names the layouts of other limiters by which the keys were read; empty for limitctl's own keys.
	Layouts  string    `json:"layouts,omitempty"`
	Servers  []Server  `json:"servers,omitempty"`
	Coverage Coverage  `json:"coverage"`
	Keys     []Reading `json:"keys"`
	// Denials is who was being denied; nil if that is not known.
	Denials *denialFrame `json:"denials,omitempty"`
	// Problem is why the look failed. Then Keys are those that were had before it.
	Problem string `json:"problem,omitempty"`
	// Away are nodes that did not answer, while others did.
	Away []away `json:"away,omitempty"`
	// Asked are the keys that were looked for; those that are not among Keys are unused.
	Asked []ID `json:"-"`
}

// Document is the data of one frame for programs, and what is in force.
type Document struct {
	snapshot
	Overrides []overrideInForce `json:"overrides"`
}

type overrideInForce struct {
	ID      string    `json:"id"`
	Whom    string    `json:"whom"` // as in override list
	Limits  string    `json:"limits,omitempty"`
	Effect  string    `json:"effect"`
	Expires time.Time `json:"expires"`
	By      string    `json:"by,omitempty"`
	Reason  string    `json:"reason,omitempty"`
}

// DocumentOf is the data of the frame after what Look brought.
func DocumentOf(f *Feed, look tea.Msg) *Document {
	fetched, _ := look.(fetched)
	fetched.Servers, fetched.Coverage = f.Servers, f.Coverage
	if !f.NotCounted || f.Denials.Total > 0 {
		fetched.Denials = f.Denials.Frame(f.Clock)
	}
	d := &Document{snapshot: fetched.snapshot, Overrides: []overrideInForce{}}
	all := f.Overrides.InForce(f.Clock)
	for i := range all {
		o := overrideInForce{ID: all[i].ID, Whom: allowance.Whom(&all[i]), Effect: allowance.Effect(&all[i]),
			Expires: all[i].ExpiresAt.UTC(), By: all[i].By, Reason: all[i].Reason}
		if !all[i].Names.IsZero() {
			o.Limits = allowance.Pattern(all[i].Names)
		}
		d.Overrides = append(d.Overrides, o)
	}
	return d
}

// Server is what one master says of itself.
type Server struct {
	Name         string `json:"name,omitempty"` // empty if it is the only one
	Version      string `json:"version,omitempty"`
	Role         string `json:"role,omitempty"`
	OpsPerSecond int64  `json:"ops_per_second"`
	UsedMemory   int64  `json:"used_memory"`
	MaxMemory    int64  `json:"max_memory,omitempty"`
	// Refuses: its memory is full, and it evicts nothing.
	Refuses   bool          `json:"-"`
	RoundTrip time.Duration `json:"round_trip_ns"`
	// Problem is why it told nothing.
	Problem string `json:"problem,omitempty"`
}

// AskServers asks all masters. message writes why one tells nothing. An error is why none can be asked.
func AskServers(ctx context.Context, servers *redisserver.Servers,
	message func(error) string) (all []Server, err error) {
	var problems []error
	answers := false
	for _, a := range servers.Ask(ctx) {
		s := Server{Name: a.Address, RoundTrip: a.RoundTrip}
		if a.Err != nil {
			problems, s.Problem = append(problems, a.Err), message(a.Err)
		} else {
			version := a.Info.Version()
			s.Version, s.Role = version.Product+" "+version.Text, a.Info["role"]
			s.OpsPerSecond, s.UsedMemory = a.Info.Int("instantaneous_ops_per_sec"), a.Info.Int("used_memory")
			s.MaxMemory = a.Info.Int("maxmemory")
			s.Refuses = s.MaxMemory > 0 && s.UsedMemory >= s.MaxMemory && a.Info["maxmemory_policy"] == "noeviction"
		}
		answers = answers || !store.IsAway(a.Err) && !errors.Is(a.Err, store.ErrRefused)
		all = append(all, s)
	}
	if answers {
		return all, nil
	}
	return all, errors.Join(problems...)
}

// Coverage is how much of the selected keys is followed.
type Coverage struct {
	// Looked and Total are how far a scan has come, in keys of the store.
	Looked int64 `json:"looked"`
	Total  int64 `json:"total"`
	// Passes is how often all keys were looked at, and Took how long that takes.
	Passes int           `json:"passes"`
	Took   time.Duration `json:"took_ns"`
	// Matched and AtLimit are what the last whole scan came to, those followed among them.
	Matched int64 `json:"matched"`
	AtLimit int64 `json:"at_limit"`
	// Unsure is how many keys may be of another limiter, and are left out.
	Unsure int64 `json:"unsure,omitempty"`
	// UnsureNoTTL is how many of these never expire, and may deny for ever.
	UnsureNoTTL int64 `json:"unsure_no_ttl,omitempty"`
	// Full: there are more keys than are followed.
	Full bool `json:"full"`
}

// Reading is the state of one key.
type Reading struct {
	admin.Entry
	// Taken is the units charged since the reading before, negative if they are not known.
	Taken int64
}

// IsUsed reports whether anything of the limit is used, as far as that is known.
func (r *Reading) IsUsed() bool { return r.Used > 0 || r.UsedUnknown }

// UsedShare is how much of the limit is used: 1 is all. It is 0 if that is not known.
func (r *Reading) UsedShare() float64 {
	share, _ := r.Share()
	return share
}

type away struct {
	Node    string `json:"node"`
	Problem string `json:"problem"`
	// Keys are those that were not read, and are still as they were.
	Keys []keyName `json:"keys"`
}

type keyName struct {
	Key  string `json:"key"`
	Name string `json:"name"`
	// StoreKey is the one of another limiter.
	StoreKey string `json:"store_key,omitempty"`
}

type denialFrame struct {
	// OthersPerSecond is of selected keys without a count of their own.
	PerSecond       float64 `json:"per_second"`
	OthersPerSecond float64 `json:"others_per_second,omitempty"`
	// Lost: some denials are counted nowhere.
	Lost bool        `json:"lost,omitempty"`
	Keys []deniedKey `json:"keys,omitempty"`
}

type deniedKey struct {
	Key       string  `json:"key"`
	Name      string  `json:"name"`
	PerSecond float64 `json:"per_second"`
	// AgoMS is how long ago its last denial was.
	AgoMS int64 `json:"ago_ms"`
	// SinceMS is how long ago its denials began, without a pause since; 0 if that is not known.
	SinceMS int64 `json:"since_ms,omitempty"`
	// Blocked: a block denies it.
	Blocked bool `json:"blocked,omitempty"`
}

// readingDocument is a Reading as JSON, with the names that inspect has.
type readingDocument struct {
	Key      string `json:"key"`
	Name     string `json:"name"`
	StoreKey string `json:"store_key"`
	Layout   string `json:"layout,omitempty"` // of another limiter
	Limit    string `json:"limit"`            // empty if not all of it is known
	// RecordedLimit is the one that the key was last charged under, if another one is in force.
	RecordedLimit string `json:"recorded_limit,omitempty"`
	// Algorithm, Count, Burst and PeriodMS are what is known of the limit if that is not all.
	Algorithm    string            `json:"algorithm,omitempty"`
	Count        int64             `json:"count,omitempty"`
	Burst        int64             `json:"burst,omitempty"`
	PeriodMS     int64             `json:"period_ms,omitempty"`
	Used         *int64            `json:"used"` // as the following, null if it is not known
	Remaining    *int64            `json:"remaining"`
	RetryAfterMS *int64            `json:"retry_after_ms"`
	ResetAfterMS *int64            `json:"reset_after_ms"`
	TTLMS        int64             `json:"ttl_ms"` // -1: it never expires
	Taken        *int64            `json:"taken"`
	Defects      []decision.Defect `json:"defects,omitempty"`
}

// MarshalJSON implements json.Marshaler. What other limiters wrote can be any number; it is bounded.
func (r Reading) MarshalJSON() ([]byte, error) {
	bounded := func(n int64) int64 { return min(max(0, n), mostOfAnything) }
	ifKnown := func(known bool, n int64) *int64 {
		if !known {
			return nil
		}
		n = bounded(n)
		return &n
	}
	d := readingDocument{Key: r.Key.Subject, Name: r.Key.Name, StoreKey: r.StoreKey, Layout: r.Layout,
		Used: ifKnown(r.UsedKnown(), r.Used), Remaining: ifKnown(r.RemainingKnown(), r.Remaining),
		RetryAfterMS: ifKnown(r.RetryKnown(), output.Milliseconds(r.RetryAfter)),
		ResetAfterMS: ifKnown(r.ResetKnown(), output.Milliseconds(r.ResetAfter)),
		TTLMS:        bounded(output.Milliseconds(r.TTL)), Taken: ifKnown(r.Taken >= 0, r.Taken)}
	if r.TTL < 0 {
		d.TTLMS = -1
	}
	if r.LimitKnown() {
		d.Limit = r.Limit.String()
	} else {
		if r.Limit.Algorithm != 0 {
			d.Algorithm = r.Limit.Algorithm.String()
		}
		d.Count, d.Burst = bounded(r.Limit.Count), bounded(r.Limit.Burst)
		d.PeriodMS = bounded(output.Milliseconds(r.Limit.Period))
	}
	if r.Recorded != (store.Limit{}) {
		d.RecordedLimit = r.Recorded.String()
	}
	for _, defect := range r.Defects {
		d.Defects = append(d.Defects, decision.Defect(defect))
	}
	return json.Marshal(d)
}

// More than any count or time, in milliseconds, of a limit of limitctl.
const mostOfAnything = 4_000_000_000_000

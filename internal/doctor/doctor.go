// Package doctor examines a store as an expert would: what works, and what to fix. Reading and judging are kept apart:
// the judge… functions turn facts into findings.
package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Status is the severity of a finding.
type Status string

// The statuses.
const (
	OK   Status = "ok"
	Warn Status = "warn" // it works, with a risk
	Fail Status = "fail" // it does not work, or is about to fail
)

// Finding is the result of one check. Each text is one line.
type Finding struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`           // ok, warn or fail
	Server  string `json:"server,omitempty"` // if there are several
	Summary string `json:"summary"`
	// Advice says what to do.
	Advice string `json:"advice,omitempty"`
}

func fine(check, summary string, args ...any) Finding {
	return Finding{Check: check, Status: OK, Summary: fmt.Sprintf(summary, args...)}
}

func warn(check, summary, advice string) Finding {
	return Finding{Check: check, Status: Warn, Summary: summary, Advice: advice}
}

func fail(check, summary, advice string) Finding {
	return Finding{Check: check, Status: Fail, Summary: summary, Advice: advice}
}

// Report has the findings of an examination.
type Report struct {
	Findings []Finding
	// Reached: there was something to examine.
	Reached bool
}

// Count returns the number of findings with a status.
func (r *Report) Count(status Status) int {
	n := 0
	for i := range r.Findings {
		if r.Findings[i].Status == status {
			n++
		}
	}
	return n
}

func (r *Report) add(findings ...Finding) { r.Findings = append(r.Findings, findings...) }

// checks returns the checks in the order in which they are shown: whether the store works at all, whether it will go
// on to work, and what is in it.
func checks() []string {
	return []string{"reachable", "transport", "sentinel", "version", "role", "replicas", "cluster", "persistence",
		"memory", "eviction",
		"clock", "settings", "rights", "file", "keys", "ttl", "damaged", "foreign", "overrides",
		"published"}
}

// sort puts the findings into the order of the checks, those of several servers side by side.
func (r *Report) sort() {
	order := checks()
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Compare(slices.Index(order, a.Check), slices.Index(order, b.Check))
	})
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// Options bound an examination.
type Options struct {
	Prefix string
	// ScanLimit is the most keys of the store that are read; 0 means all.
	ScanLimit int
	Now       func() time.Time
	// Store is the store itself, for its keys and what is published in it.
	Store store.Store
	// Transport says how the connections are protected.
	Transport redisserver.Transport
	// Sentinels are the answers of the URL's Sentinels; empty for another URL.
	Sentinels []redisserver.SentinelHealth
}

// server is one master, or the only server.
type server struct {
	client *redis.Client
	name   string               // empty if it is the only one
	alone  *redisserver.Servers // this server alone, for its errors
}

// examination is the examination of a Redis.
type examination struct {
	Options
	client  redis.UniversalClient
	servers *redisserver.Servers
	report  Report
	// unreached: a server did not answer.
	unreached bool
}

func (e *examination) add(s *server, findings ...Finding) {
	for i := range findings {
		findings[i].Server = s.name
	}
	e.report.add(findings...)
}

// cannotLook adds the finding that the server does not allow what a check needs.
func (e *examination) cannotLook(s *server, check, command string, err error) {
	words := words(command)
	if redisserver.LacksRight(err) {
		e.add(s, warn(check, "cannot be checked: the user lacks the right to "+words,
			shell.SetUser(redisserver.User(e.client), "+"+command)))
		return
	}
	e.add(s, warn(check, "cannot be checked: "+words+" fails: "+oneLine(e.servers.Explain(err)),
		"ask the server's operator; some services do not offer it"))
}

// words writes the command of a right as it is typed.
func words(command string) string { return strings.ToUpper(strings.ReplaceAll(command, "|", " ")) }

package doctor

import (
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Options bound an examination.
type Options struct {
	Prefix string
	// ScanLimit is the most keys of the store that are read; 0 means all.
	ScanLimit int
	Now       func() time.Time
	// Store is the store itself, for its keys, denials and overrides.
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
	before redisserver.Info     // its INFO at the beginning
}

// examination is the examination of a Redis.
type examination struct {
	Options
	client  redis.UniversalClient
	servers *redisserver.Servers
	report  Report
	// holdsLimits: there are limits among the keys, or it is unknown.
	holdsLimits bool
	// unreached: a server did not answer.
	unreached bool
}

func (e *examination) add(s *server, findings ...Finding) {
	for i := range findings {
		findings[i].Server = s.name
	}
	e.report.add(findings...)
}

// cannotLook adds the finding that the server does not allow what a check needs. s is nil for a check of all servers
// together.
func (e *examination) cannotLook(s *server, check, command string, err error) {
	f := Finding{Check: check, Status: Warn, Data: map[string]any{"command": command}}
	if s != nil {
		f.Server = s.name
	}
	if redisserver.LacksRight(err) {
		f.Summary = "cannot be checked: the user lacks the right to " + strings.ToUpper(strings.ReplaceAll(command, "|", " "))
		f.Advice = shell.SetUser(redisserver.User(e.client), "+"+command)
		if readVerdict(err.Error()) == keyDenied {
			f.Summary = "cannot be checked: the user lacks the right to the keys under the prefix " + e.Prefix
			f.Advice = shell.SetUser(redisserver.User(e.client), redisserver.KeyRule(e.Prefix, false))
		}
	} else {
		f.Summary = "cannot be checked: " + strings.ToUpper(strings.ReplaceAll(command, "|", " ")) + " fails: " +
			oneLine(e.servers.Explain(err))
		f.Advice = "ask the server's operator; some services do not offer it"
	}
	e.report.add(f)
}

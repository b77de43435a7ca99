package doctor

import (
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Options is what an examination may cost.
type Options struct {
	Prefix string
	// ScanLimit is how many keys of all that the store has are looked at; 0 is
	// all of them.
	ScanLimit int
	// KeysPerSecond bounds how fast they are looked at. 0 is as fast as it goes.
	KeysPerSecond int
	Now           func() time.Time
	// Store is the store itself, for what it keeps apart from its limits.
	Store store.Store
	// Transport is how what is said to a Redis travels.
	Transport connect.Transport
	// Layouts say whether and how the keys of other limiters are looked at.
	Layouts Layouts
	// Sentinels are what each Sentinel of a URL says, none for another URL.
	Sentinels []connect.SentinelHealth
}

// server is one master, or the one server there is.
type server struct {
	client *redis.Client
	name   string               // empty if it is the only one
	alone  *redisserver.Servers // it by itself, for its errors
	before redisserver.Info     // its INFO when the examination began
}

// examination is one of a Redis.
type examination struct {
	Options
	client  redis.UniversalClient
	servers *redisserver.Servers
	report  Report
	// holdsLimits: there are limits among the keys, or it is not known.
	holdsLimits bool
}

func (e *examination) add(s *server, findings ...Finding) {
	for i := range findings {
		findings[i].Server = s.name
	}
	e.report.add(findings...)
}

// cannotLook adds the finding that a check needs what the server does not allow. s
// is nil for a check of all servers together.
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

package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// layoutRights asks which commands the user may run that the keys of other limiters need. They are
// asked about under the prefix of limitctl: which keys of others there are, a scan finds out.
func (e *examination) layoutRights(ctx context.Context, s *server, user string) error {
	key := admin.OwnLayout(e.Prefix).StoreKey(store.Key{Subject: "limitctl", Name: "no-such-limit"})
	facts := rightFacts{user: user, prefix: e.Prefix, rights: redisserver.LayoutRights(key)}
	var err error
	facts.verdicts, err = dryRun(ctx, s.client, user, facts.rights)
	if err != nil && redisserver.IsReply(err) {
		facts.tried = true
		facts.verdicts, err = tryOut(ctx, s.client, facts.rights)
	}
	if err != nil {
		return err
	}
	facts.user = e.servers.Redact(user)
	e.add(s, judgeLayoutRights(facts))
	return nil
}

func judgeLayoutRights(r rightFacts) Finding {
	var can, cannot []string
	var add rightWords
	lacking := map[string][]string{}
	for _, command := range []string{"inspect", "reset", "restore"} {
		fails, _, _, _ := r.missing(command)
		if len(fails) == 0 {
			can = append(can, command)
			continue
		}
		cannot = append(cannot, command)
		for _, right := range fails {
			lacking[command] = append(lacking[command], "+"+right.Command)
			add.command(right.Command)
		}
	}
	f := Finding{Check: "rights", Status: OK, Data: map[string]any{"user": r.user, "layouts": true, "can": can, "cannot": cannot,
		"missing": lacking}}
	if can == nil {
		f.Data["can"] = []string{}
	}
	if len(cannot) == 0 {
		f.Summary = "user " + r.user + " can inspect, reset and restore the keys of other limiters that it may reach"
		return f
	}
	switch { // a user who may only read is as it should be
	case slices.Contains(cannot, "inspect"):
		f.Status = Fail
	case len(cannot) == 1: // what was reset cannot be brought back, or the other way round
		f.Status = Warn
	}
	f.Summary = "user " + r.user + " cannot " + strings.Join(cannot, " or ") + " keys of other limiters of all types"
	f.Advice = "for all of them: " + shell.SetUser(r.user, add.words(r.prefix)...)
	return f
}

package doctor

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/shell"
)

// fewSentinels is the number of Sentinels below which the failure of one can be too many.
const fewSentinels = 3

// judgeSentinels judges whether Sentinels would replace a master that fails.
func judgeSentinels(sentinels []redisserver.SentinelHealth) []Finding {
	if len(sentinels) == 0 {
		return nil
	}
	var silent, down, noQuorum []string
	var known, quorum int
	for _, s := range sentinels {
		if s.Problem != nil {
			silent = append(silent, fmt.Sprintf("%s (%s)", s.Address, oneLine(s.Problem)))
			continue
		}
		if s.Down {
			down = append(down, s.Address)
		}
		if s.NoQuorum != "" {
			noQuorum = append(noQuorum, s.Address+": "+s.NoQuorum)
		}
		known, quorum = max(known, s.Known), max(quorum, s.Quorum)
	}
	data := map[string]any{"sentinels": known, "quorum": quorum, "asked": len(sentinels), "silent": len(silent)}
	if len(silent) == len(sentinels) {
		return []Finding{{Check: "sentinel", Status: Fail, Summary: "no Sentinel answers: " + strings.Join(silent, ", "), Data: data,
			Advice: "check that the Sentinels run; without them nothing replaces a master that fails"}}
	}
	f := Finding{Check: "sentinel", Status: OK, Data: data,
		Summary: fmt.Sprintf("%s watch the master, and %d have to agree that it is down", output.Plural(known, "Sentinel"), quorum)}
	switch {
	case len(noQuorum) > 0:
		f.Status, f.Summary = Fail, "no failover is possible now: "+strings.Join(noQuorum, "; ")
		f.Advice = "bring the missing Sentinels back, or lower the quorum with SENTINEL SET; forget those that are gone with SENTINEL RESET"
	case known < fewSentinels:
		f.Status = Warn
		f.Summary += fmt.Sprintf("; with fewer than %d, no failover survives the loss of one", fewSentinels)
		f.Advice = "run at least three Sentinels, on machines that do not fail together"
	case quorum > known-1:
		f.Status = Warn
		f.Summary += ": all of them, so the loss of one prevents a failover"
		f.Advice = fmt.Sprintf("lower the quorum to %d with SENTINEL SET MASTER quorum", known/2+1)
	}
	found := []Finding{f}
	if len(down) > 0 {
		found = append(found, Finding{Check: "sentinel", Status: Fail, Summary: "the master is down, says " + strings.Join(down, ", "),
			Advice: "look at SENTINEL MASTER and at the Sentinel's log", Data: map[string]any{"down": down}})
	}
	if len(silent) > 0 {
		found = append(found, Finding{Check: "sentinel", Status: Warn, Summary: "no answer from " + strings.Join(silent, ", "),
			Advice: "check that it runs and can be reached from here", Data: map[string]any{"silent": silent}})
	}
	return found
}

// isSentinel reports whether the only server is a Sentinel, which holds no limits, and adds a finding with the right
// URLs.
func (e *examination) isSentinel(ctx context.Context, s *server) (bool, error) {
	about, err := s.alone.Info(ctx, s.client, "server")
	if redisserver.IsReply(err) || err == nil && about["redis_mode"] != "sentinel" {
		return false, nil // a server that refuses INFO is examined, too
	}
	if err != nil {
		return false, s.alone.Explain(err)
	}
	f := Finding{Check: "sentinel", Status: Fail, Summary: "this is a Sentinel, which holds no limits"}
	masters, err := s.client.Do(ctx, "sentinel", "masters").Slice()
	if err != nil && !redisserver.IsReply(err) {
		return true, s.alone.Explain(err)
	}
	var watched, urls []string
	for _, master := range masters {
		about := redisserver.FieldsOf(master)
		watched = append(watched, fmt.Sprintf("%s (%s:%s)", about["name"], about["ip"], about["port"]))
		urls = append(urls, shell.Command("--store", e.sentinelURL(ctx, s, about["name"])))
	}
	switch {
	case err != nil:
		f.Advice = "give redis+sentinel://HOST:PORT/MASTER; the user lacks the right to SENTINEL MASTERS, which names them"
	case len(masters) == 0:
		f.Summary += " and watches no master"
		f.Advice = "give the address of a server, or of a Sentinel that watches one"
	default:
		f.Summary += "; it watches " + strings.Join(watched, ", ")
		f.Advice = "give " + strings.Join(urls, " or ")
		f.Data = map[string]any{"masters": watched, "urls": urls}
	}
	e.add(s, f)
	return true, nil
}

// sentinelURL returns the URL of a master by the Sentinel s and those that it knows.
func (e *examination) sentinelURL(ctx context.Context, s *server, master string) string {
	addresses := []string{s.client.Options().Addr}
	if others, err := s.client.Do(ctx, "sentinel", "sentinels", master).Slice(); err == nil {
		for _, other := range others {
			about := redisserver.FieldsOf(other)
			addresses = append(addresses, net.JoinHostPort(about["ip"], about["port"]))
		}
	}
	slices.Sort(addresses[1:])
	scheme := "redis+sentinel"
	if e.Transport.TLS {
		scheme = "rediss+sentinel"
	}
	return e.servers.Redact(scheme + "://" + strings.Join(addresses, ",") + "/" + master)
}

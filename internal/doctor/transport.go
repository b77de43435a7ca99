package doctor

import (
	"net"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/output"
	redisserver "github.com/limitctl/limitctl/internal/redis"
)

// judgeTransport judges who can read the password, and answer in a server's place. nodes are the nodes of a Cluster,
// and redact removes secrets from addresses.
func judgeTransport(t redisserver.Transport, nodes []string, redact func(string) string) (found []Finding) {
	if t.Unchecked {
		return []Finding{{Check: "transport", Status: Warn,
			Summary: "TLS, but the server's certificate is not checked (tls_insecure=true): " +
				"anybody in between can read the password and forge answers",
			Advice: "leave tls_insecure out; for an authority of your own give tls_ca=FILE, " +
				"for another name tls_server_name=NAME (docs/redis.md)",
			Data: map[string]any{"tls": true, "checked": false}}}
	}
	if t.TLS {
		return nil
	}
	receivers := t.PasswordTo
	if t.LogsIn {
		receivers = append(slices.Clone(receivers), nodes...)
	}
	var far []string
	for _, address := range receivers {
		if host, _, err := net.SplitHostPort(address); err == nil && !redisserver.IsLocal(host) {
			far = append(far, redact(address))
		}
	}
	if len(far) == 0 {
		return nil
	}
	slices.Sort(far)
	far = slices.Compact(far)
	shown := far
	if len(shown) > mostFarShown {
		shown = append(slices.Clone(far[:mostFarShown]), output.Plural(len(far)-mostFarShown, "other"))
	}
	return []Finding{{Check: "transport", Status: Warn,
		Summary: "the password goes unencrypted to " + strings.Join(shown, ", ") + ": anybody in between can read it",
		Advice: "have the server speak TLS and write rediss in place of redis in its URL (docs/redis.md), " +
			"or connect by a tunnel that ends on this machine",
		Data: map[string]any{"tls": false, "password_unencrypted_to": far}}}
}

const mostFarShown = 3

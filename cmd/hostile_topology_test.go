package cmd

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/hostile"
	"github.com/limitctl/limitctl/internal/tier"
)

// answers is a server of a Cluster, or a Sentinel, that has one answer. In it HOST and
// PORT stand for its own.
func answers(name, answer string) hostile.Behaviour {
	return hostile.Behaviour{Name: name, Sound: true, Answer: func(c *hostile.Client) bool {
		host, port, _ := net.SplitHostPort(c.LocalAddr().String())
		_, err := strings.NewReplacer("HOST", host, "PORT", port).WriteString(c, answer)
		return err == nil
	}}
}

// member is a range of slots as CLUSTER SLOTS has it.
func member(first, last int, host, port string) string {
	return fmt.Sprintf("*3\r\n:%d\r\n:%d\r\n*3\r\n+%s\r\n:%s\r\n+%040d\r\n", first, last, host, port, 1)
}

// clusters are answers to CLUSTER SLOTS. Whatever else is asked of such a server it
// answers the same.
func clusters() []hostile.Behaviour {
	all := member(0, 16383, "HOST", "PORT")
	return []hostile.Behaviour{
		answers("no slots", "*0\r\n"),
		answers("as many ranges as go", "*60000\r\n"+strings.Repeat(all, 60000)),
		answers("no host", "*1\r\n"+member(0, 16383, "", "1")),
		answers("host of escapes", "*1\r\n"+member(0, 16383, "\x1b]0;x\x07", "1")),
		answers("ranges the wrong way round", "*1\r\n"+member(16383, 0, "HOST", "PORT")),
		answers("itself, and nothing else", "*1\r\n"+all),
	}
}

// moves are what a server of a Cluster says to a script.
func moves() []hostile.Behaviour {
	return []hostile.Behaviour{
		answers("moved to itself", "-MOVED 1 HOST:PORT\r\n"),
		answers("moved to garbage", "-MOVED x \x1b[31m:y\r\n"),
		answers("down", "-CLUSTERDOWN no\r\n"),
	}
}

// masters are answers of a Sentinel who is asked for the master.
func masters() []hostile.Behaviour {
	var all []hostile.Behaviour
	for _, address := range [][2]string{
		{"", ""}, {"HOST", "99999999"}, {"a\x1b[31mb", "1"}, {"HOST", "PORT"},
	} {
		answer := fmt.Sprintf("*2\r\n+%s\r\n+%s\r\n", address[0], address[1])
		all = append(all, answers(fmt.Sprintf("master at %.20q", address), answer))
	}
	return append(all,
		answers("master with a line end", "*2\r\n$5\r\na\r\nb\n\r\n$1\r\n1\r\n"),
		answers("a long list", "*300000\r\n"+strings.Repeat("+a\r\n", 300000)),
	)
}

// What is not a Cluster, or no Sentinel, is found out as soon. The commands take turns.
func TestEveryKindOfStoreOutlastsHostileServers(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	t.Parallel()
	dir, sound := hostileDir(t)
	usual, _ := hostileBehaviours(t)
	commands := slices.DeleteFunc(conversations(dir), func(c conversation) bool {
		return !slices.Contains([]string{"check", "inspect all", "doctor", "Tab"}, c.name)
	})
	all := newSideBySide(4)
	for _, kind := range []struct {
		url        string
		behaviours []hostile.Behaviour
		to         stage
	}{
		{"redis+cluster://%s", slices.Concat(clusters(), usual), atOnce},
		{"redis+sentinel://%s/main", slices.Concat(masters(), usual), stage{"SENTINEL"}},
	} {
		for i, b := range kind.behaviours {
			all.do(func() { commands[i%len(commands)].meets(t, sound, kind.url, kind.to, b) })
		}
	}
	for _, b := range moves() {
		all.do(func() { commands[0].meets(t, sound, "redis+cluster://%s", atOnce, inACluster(b)) })
	}
	all.wait()
}

// inACluster is a server that says it has all slots, and else what b does.
func inACluster(b hostile.Behaviour) hostile.Behaviour {
	b.Usual = map[string]hostile.Behaviour{
		"CLUSTER": answers("", "*1\r\n"+member(0, 16383, "HOST", "PORT")),
		"HELLO":   answers("", "-ERR unknown command\r\n"),
	}
	return b
}

package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/redistest"
)

// Where a configuration is published, a user hears what it may do with it and what it lacks, asked and tried alike, and trying
// changes nothing. The advice suffices.
func TestTheRightsToPublish(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	server.Do("SET", "rl!{config}:head", "a head")
	server.Do("XADD", "rl!{config}:history", "*", "text", "a line")
	const common = " +acl|whoami +acl|dryrun +ping +info"
	const service = "%R~rl!{config}:* ~rl!{config}:process:* -@all +getrange +time +set"
	const publisher = "~rl!{config}:* -@all +evalsha +eval +getrange +time +set +unlink +xadd +xrevrange"
	for _, test := range []struct {
		rule               string
		follows, publishes bool
		status             Status
		says, advice       string
	}{
		{"~* +@all", true, true, OK, "can follow and publish configurations", ""},
		{service, true, false, OK, "can follow published configurations, as a service; to publish it lacks ~rl!{config}:* +evalsha +eval " +
			"+xrevrange +xadd +unlink", ""},
		{publisher, true, true, OK, "can follow and publish configurations", ""},
		{strings.Replace(publisher, " +unlink", "", 1), true, false, Warn, "though it has some of the rights", "+unlink"},
		{strings.Replace(service, "~rl!{config}:process:* ", "", 1), true, false, Warn, "config status does not show the process",
			"'%R~rl!{config}:*' '~rl!{config}:process:*'"},
		{"~rl:* -@all +getrange +time +set", false, false, OK, "can neither follow nor publish configurations; to follow them it lacks",
			"'~rl!{config}:process:*'"},
	} {
		words := []any{"ACL", "SETUSER", "tried", "reset", "on", ">pw"}
		for word := range strings.FieldsSeq(test.rule + common) {
			words = append(words, word)
		}
		server.Do(words...)
		before := client.DBSize(ctx).Val()
		for _, way := range []string{"asked", "tried"} {
			if way == "tried" {
				server.Do("ACL", "SETUSER", "tried", "-acl|dryrun")
			}
			report, err := examine(t, server, "tried", asIs)
			if err != nil {
				t.Fatal(err)
			}
			f := report.finding(t, "publishing")
			if f.Data["follows"] != test.follows || f.Data["publishes"] != test.publishes || f.Status != test.status ||
				!strings.Contains(f.Summary, test.says) || !strings.Contains(f.Advice, test.advice) ||
				(test.advice == "") != (f.Advice == "") {
				t.Errorf("%s, %s: %+v", test.rule, way, f)
			}
		}
		if after := client.DBSize(ctx).Val(); after != before || client.XLen(ctx, "rl!{config}:history").Val() != 1 ||
			client.Get(ctx, "rl!{config}:head").Val() != "a head" {
			t.Errorf("%s: trying changes keys: %d became %d", test.rule, before, after)
		}
	}
	// Where nothing is published, nobody needs to hear of it.
	server.Do("FLUSHALL")
	server.Do("ACL", "SETUSER", "tried", "reset", "on", ">pw", "~*", "+@all")
	report, err := examine(t, server, "tried", asIs)
	if err != nil || slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Check == "publishing" }) {
		t.Errorf("%v: %s", err, fmt.Sprint(report.Findings))
	}
}

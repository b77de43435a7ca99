package redisserver_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/hostile"
	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
)

const (
	// inTime is the time for an answer that comes, and briefly for one that does not.
	inTime  = time.Minute
	briefly = 100 * time.Millisecond
	// mostMade is the most bytes that a client allocates to read one answer, including garbage.
	mostMade = 32 << 20
)

// answered reports whether a client takes the first answer for one: what follows it is wrong, or what it says to a
// scan. In version 2, messages to subscribers are answers.
func answered(b hostile.Behaviour, protocol int) bool {
	pushes := []string{"pushes without an end", "large pushes without an end", "dribbled pushes"}
	return b.Spoils || b.Name == "messages without an end" || strings.HasPrefix(b.Name, "scan ") ||
		protocol == 2 && slices.Contains(pushes, b.Name)
}

// Whatever a server answers, a guarded client returns in time, with an error if it is no answer, and allocates
// no more than one answer may cost.
func TestHostileAnswersCostABound(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	sound := redistest.Start(t).Addr
	for _, b := range hostile.Behaviours() {
		for _, protocol := range []int{2, 3} {
			made, err := askedOnce(t, hostile.Start(t, sound, b, "GET"), protocol, b.Greets, b.Late && !answered(b, protocol))
			switch {
			case !b.Sound && answered(b, protocol) != (err == nil):
				t.Errorf("%s, RESP%d: it ends with %v", b.Name, protocol, err)
			case b.Late && err != nil && !strings.Contains(err.Error(), "i/o timeout"):
				t.Errorf("%s, RESP%d: it ends with %v, want a time-out", b.Name, protocol, err)
			case made > mostMade:
				t.Errorf("%s, RESP%d: it made %d MB", b.Name, protocol, made>>20)
			}
		}
	}
}

// askedOnce sends one command, and returns the bytes that were allocated for the answer. With hurries the client
// has a short time-out.
func askedOnce(t *testing.T, server *hostile.Server, protocol int, greets, hurries bool) (made uint64, err error) {
	t.Helper()
	defer server.Stop()
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Protocol: protocol, MaxRetries: -1, ReadTimeout: inTime,
		DialTimeout: inTime, PoolTimeout: inTime, DisableIdentity: true})
	defer client.Close()
	redisserver.Guard(client)
	if !greets { // otherwise nothing is right from the beginning
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	asks := client
	if hurries {
		asks = client.WithTimeout(briefly) // over the same connection
	}
	made = heldBy(func() { err = asks.Do(t.Context(), "GET", "x").Err() })
	return made, err
}

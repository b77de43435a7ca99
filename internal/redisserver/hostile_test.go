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
	// anAnswer means no error: the client accepts the answer.
	anAnswer = ""
	anyError = "any error"
	tooLate  = "i/o timeout"
)

// ends has the error of a command for each behaviour.
var ends = map[string]string{
	"text without bound":              "it announces a text of 9223372036854775807 bytes",
	"text of more than there is":      "it announces a text of 512000000 bytes",
	"text a little too long":          "it announces a text of 30000000 bytes",
	"text that comes":                 "it announces a text of 512000000 bytes",
	"text of many digits":             "a text whose length has more than 19 digits",
	"length without an end":           "a text whose length has more than 19 digits",
	"text of negative length":         "a text of length -2",
	"text of no length":               "a text of no length",
	"text of a word's length":         "a text of a length with 't' in it",
	"text without its end":            "a text does not end where it should",
	"error without bound":             "it announces a text of 9223372036854775807 bytes",
	"verbatim text without bound":     "it announces a text of 9223372036854775807 bytes",
	"list without bound":              "it announces a list of 2147483647 values",
	"list of negative length":         "a list of length -7",
	"list that comes":                 "it announces a list of 200000000 values",
	"list of texts that comes":        "it goes on after 22 MB",
	"map without bound":               "it announces a map of 1073741824 values",
	"map of too many":                 "it announces a map of 400000 values",
	"set without bound":               "it announces a list of 2147483647 values",
	"push without bound":              "it announces a message of 1000000000 values",
	"attribute without bound":         `a value begins with "|1000000000`,
	"line without an end":             "it has a line of more than 65536 bytes",
	"error without an end":            "it has a line of more than 65536 bytes",
	"number without an end":           "it has a line of more than 65536 bytes",
	"big number without an end":       "it has a line of more than 65536 bytes",
	"answers without an end":          anAnswer, // the first of them
	"pushes without an end":           "it goes on after 22 MB",
	"large pushes without an end":     "it goes on after 22 MB",
	"messages without an end":         anAnswer, // as of a subscription
	"attributes without an end":       `a value begins with "|0`,
	"empty lines without an end":      `a value begins with "\r\n`,
	"zeros without an end":            `a value begins with "\x00`,
	"lists of as much as goes":        "it goes on after 22 MB",
	"lists in lists":                  "it nests lists more than 16 deep",
	"maps in maps":                    "it nests lists more than 16 deep",
	"pushes in lists":                 "a message to subscribers in the middle",
	"list as the key of a map":        "map key must be a scalar",
	"streamed text":                   "a text of a length with '?' in it",
	"streamed list":                   "a list of a length with '?' in it",
	"HTTP":                            `a value begins with "HTTP/1.1`,
	"TLS":                             `a value begins with "\x15`,
	"SSH":                             `a value begins with "SSH-2.0`,
	"noise":                           "a value begins with",
	"HTTP before it is asked":         `a value begins with "HTTP/1.1`,
	"answers before it is asked":      "can't parse map reply",
	"silence":                         tooLate,
	"end":                             "EOF",
	"end in the middle":               "unexpected EOF",
	"reset":                           anyError, // or an end, as the system sees fit
	"silence after half a text":       tooLate,
	"silence after half a list":       tooLate,
	"dribbled line":                   tooLate,
	"dribbled list":                   tooLate,
	"dribbled pushes":                 tooLate,
	"dribbled answers":                anAnswer, // the first of them
	"scan of more than was asked for": anAnswer, "scan that stays where it is": anAnswer, "scan that goes round": anAnswer,
	"scan without an end": anAnswer, "scan with new keys without an end": anAnswer, // each page is an answer
}

// endsOf returns the error for a version of the protocol. In version 2, messages to subscribers are answers.
func endsOf(b hostile.Behaviour, protocol int) (want string, known bool) {
	want, known = ends[b.Name]
	if protocol == 2 && slices.Contains([]string{"pushes without an end", "large pushes without an end", "dribbled pushes"}, b.Name) {
		want = anAnswer
	}
	return want, known
}

// Whatever a server answers, a guarded client returns in time, with an error that says what is wrong, and allocates
// no more than one answer may cost.
func TestHostileAnswersCostABound(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	sound := redistest.Start(t).Addr
	met := map[string]bool{}
	for _, b := range hostile.Behaviours() {
		for _, protocol := range []int{2, 3} {
			want, known := endsOf(b, protocol)
			met[b.Name] = known
			made, err := askedOnce(t, hostile.Start(t, sound, b, "GET"), protocol, b.Greets, want == tooLate)
			switch {
			case !known && !b.Sound:
				t.Errorf("%s: how does a question end that is answered so? It ends with %v", b.Name, err)
			case known && (want == anAnswer) != (err == nil), err != nil && want != anyError && !strings.Contains(err.Error(), want):
				t.Errorf("%s, RESP%d: it ends with %v, want %q", b.Name, protocol, err, want)
			case made > mostMade:
				t.Errorf("%s, RESP%d: it made %d MB", b.Name, protocol, made>>20)
			}
		}
	}
	for name := range ends {
		if !met[name] {
			t.Errorf("no behaviour is called %q", name)
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

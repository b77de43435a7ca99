package lanes

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// An answer that does not follow from the state that came with it is no answer, be it a yes or a no.
func TestAnAnswerFollowsFromItsState(t *testing.T) {
	limit, _ := store.Limit{Count: 3, Period: time.Hour}.Normalize()
	other, _ := store.Limit{Count: 4, Period: time.Hour}.Normalize()
	now := store.InstantOf(time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC))
	record := func(limit store.Limit, used int64) string {
		var s store.State
		s.Charge(limit, used, now)
		return string(s.AppendRecord(nil))
	}
	reply := func(at store.Instant, allowed byte, record string) string {
		var instant [8]byte
		binary.BigEndian.PutUint64(instant[:], uint64(at))
		return string(instant[1:]) + string([]byte{allowed, byte(len(record))}) + record
	}
	complete := func(at store.Instant, allowed, granted byte, record string) string { // of decide.lua
		short := reply(at, allowed, record)
		return short[:7] + "\x00" + string(short[7]) + "\x00\x00\x00" + string(granted) + strings.Repeat("\x00", 7) +
			short[8:]
	}
	for name, c := range map[string]struct {
		op      store.Op
		reply   string
		follows bool
	}{
		"a take":                            {store.Take, reply(now, 1, record(limit, 1)), true},
		"a denied take":                     {store.Take, reply(now, 0, record(limit, 3)), true},
		"a peek":                            {store.Peek, reply(now, 1, ""), true},
		"a refund":                          {store.Refund, complete(now, 1, 1, ""), true},
		"a refund of more than was asked":   {store.Refund, complete(now, 1, 2, ""), false},
		"a refund that is denied":           {store.Refund, complete(now, 0, 1, ""), false},
		"a charge":                          {store.Charge, complete(now, 1, 1, record(limit, 4)), true},
		"a settlement that is denied":       {store.Settle, complete(now, 0, 0, ""), false},
		"a take of what fits":               {store.TakeUpTo, complete(now, 1, 1, record(limit, 3)), true},
		"a take of more than fits":          {store.TakeUpTo, complete(now, 1, 1, record(limit, 4)), false},
		"bytes behind it":                   {store.Take, reply(now, 1, record(limit, 1)) + "x", false},
		"neither yes nor no":                {store.Take, reply(now, 2, record(limit, 1)), false},
		"a no with room left":               {store.Take, reply(now, 0, record(limit, 1)), false},
		"a no of an unused key":             {store.Peek, reply(now, 0, ""), false},
		"a yes with no room left":           {store.Peek, reply(now, 1, record(limit, 3)), false},
		"a take that took nothing":          {store.Take, reply(now, 1, ""), false},
		"a take of more than there is":      {store.Take, reply(now, 1, record(other, 4)), false},
		"a take that wrote what is damaged": {store.Take, reply(now, 1, strings.Repeat("x", 37)), false},
		"zeros":                             {store.Take, strings.Repeat("\x00", 40), false},
	} {
		reqs := []store.Request{{Key: store.Key{Subject: "u", Name: "n"}, Limit: limit, Cost: 1}}
		a := &ask{op: c.op, keys: []string{"rl:{u}:n"}, reqs: reqs, script: deciding(c.op, reqs)}
		answer := &call{}
		answer.SetVal(c.reply)
		err := a.took(answer)
		if err == nil {
			err = new(Sender).readAnswer(a, make([]store.Decision, 1))
		}
		if c.follows && err != nil || !c.follows && !errors.Is(err, redisserver.ErrAnswer) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

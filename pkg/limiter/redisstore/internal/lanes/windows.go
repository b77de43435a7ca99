package lanes

import (
	"strconv"
	"strings"
	"time"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The windows of a calendar need the rules of time zones, which a script does not have. So each request says the
// bounds of its window, by the server's clock as far as that is known here. A script that finds them wrong changes
// nothing and says the right instant, and the call is made again. Our own clock need not be right.

// windowReply begins the reply of a script that found the window of a request wrong.
const windowReply = "WINDOW "

// serverNow returns what the server's clock shows, as far as that is known.
func (s *Sender) serverNow() store.Instant {
	if s.Clock != nil {
		return store.InstantOf(s.Clock())
	}
	return store.InstantOf(time.Now().Add(time.Duration(s.Ahead.Load()) * time.Millisecond))
}

// SetWindows has all of reqs that are decided in windows of a calendar be in those that hold now.
func (s *Sender) SetWindows(reqs []store.Request) {
	now := store.Instant(-1)
	for i := range reqs {
		if reqs[i].Limit.Calendar == nil {
			continue
		}
		if now < 0 {
			now = s.serverNow()
		}
		reqs[i].Limit = reqs[i].Limit.InWindow(now)
	}
}

// CorrectWindows reports whether err, of a call on reqs, is that of a wrong window, and sets the right ones. The
// script looks at one request after the other, so those before the one that it names are right. tries counts the
// calls, and ends this if a server never agrees.
func (s *Sender) CorrectWindows(err error, reqs []store.Request, tries *int) bool {
	if !redisserver.IsErrorReply(err, windowReply) {
		return false
	}
	words := strings.Fields(err.Error())
	if *tries++; len(words) < 4 || *tries > len(reqs)+1 {
		return false
	}
	var numbers [3]int64
	for i := range numbers {
		n, err := strconv.ParseInt(words[1+i], 10, 64)
		if err != nil || n < 0 || n > store.MaxInstant {
			return false
		}
		numbers[i] = n
	}
	at, instant, now := int(numbers[0])-1, store.Instant(numbers[1]), store.Instant(numbers[2])
	if at < 0 || at >= len(reqs) {
		return false
	}
	if s.Clock == nil {
		s.Ahead.Store(time.Until(now.Time()).Milliseconds())
	}
	for i := at; i < len(reqs); i++ {
		reqs[i].Limit = reqs[i].Limit.InWindow(instant)
		instant = now // a key can be ahead of the clock
	}
	return true
}

package redisserver

import (
	"context"
	"sync"
	"time"

	"github.com/limitctl/limitctl/internal/sys"
)

const (
	// strideTime is how much longer than the quickest answer of its kind one exchange of a scan may take. Other
	// clients of the server wait that long for their turn. A longer way to the server allows strideShare of it, since its
	// times vary more.
	strideTime  = 200 * time.Microsecond
	strideShare = 8
	// leastStride is the least that a stride shrinks to. A server took as much time for a key then as with 1,000 keys at a
	// time, and a third more with 16.
	leastStride = 100
	// mostQuick is how much of the quickest answer may be the server's work. The rest of it is the way there and back.
	mostQuick = 500 * time.Microsecond
	// longestPause is the longest time between two exchanges. A server that takes longer is not busy with the scan.
	longestPause = 20 * time.Millisecond
)

// Stride is how many keys one exchange of a scan is about. It begins small, grows while answers come quickly, and shrinks
// when they come late, because the exchange is large or because others keep the server busy. It is safe for
// concurrent use.
type Stride struct {
	mu       sync.Mutex
	size     int
	least    int
	most     int
	steep    bool          // no answer was late yet
	quickest time.Duration // 0 before the first answer
	rested   time.Time     // when the next exchange may begin
}

// NewStride returns a Stride of at most most keys.
func NewStride(most int) *Stride {
	least := min(leastStride, most)
	return &Stride{size: least, least: least, most: most, steep: true}
}

// Size returns how many keys the next exchange should be about.
func (s *Stride) Size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// Exchange does an exchange about that many keys and learns from how long it takes. Before that, it waits until the server
// has rested from the one before for about as long as it was busy with it, so that most others find it idle. What the
// caller does in between counts as rest.
func (s *Stride) Exchange(ctx context.Context, keys int, do func() error) error {
	s.mu.Lock()
	rested := s.rested
	s.mu.Unlock()
	if err := sys.Sleep(ctx, time.Until(rested)); err != nil {
		return err
	}
	begun := time.Now()
	err := do()
	if err == nil {
		s.took(keys, time.Since(begun))
	}
	return err
}

// took notes how long an exchange about that many keys took that has just ended. It returns how long to pause before the
// next one.
func (s *Stride) took(keys int, took time.Duration) (pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quickest == 0 || took < s.quickest {
		s.quickest = took
	}
	late := took-s.quickest > max(strideTime, s.quickest/strideShare)
	switch {
	case late:
		s.steep = false
		s.size = max(s.least, min(s.size, keys)*2/3)
	case keys < s.size: // it says nothing about a larger one
	case s.steep:
		s.size = min(s.most, 2*s.size)
	default:
		s.size = min(s.most, s.size+s.size/8+1)
	}
	pause = min(took-max(0, s.quickest-mostQuick), longestPause)
	s.rested = time.Now().Add(pause)
	return pause
}

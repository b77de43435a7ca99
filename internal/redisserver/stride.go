package redisserver

import (
	"sync"
	"time"
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
)

// Stride is how many keys one exchange of a scan is about. It begins small, grows while answers come quickly, and shrinks
// when they come late, because the exchange is large or because others keep the server busy. It is safe for
// concurrent use.
type Stride struct {
	mu       sync.Mutex
	size     int
	most     int
	steep    bool          // no answer was late yet
	quickest time.Duration // 0 before the first answer
}

// NewStride returns a Stride of at most most keys.
func NewStride(most int) *Stride {
	return &Stride{size: min(leastStride, most), most: most, steep: true}
}

// Size returns how many keys the next exchange should be about.
func (s *Stride) Size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// Took notes how long an exchange about that many keys took.
func (s *Stride) Took(keys int, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quickest == 0 || took < s.quickest {
		s.quickest = took
	}
	late := took-s.quickest > max(strideTime, s.quickest/strideShare)
	switch {
	case late:
		s.steep = false
		s.size = max(min(leastStride, s.most), min(s.size, keys)*2/3)
	case keys < s.size: // it says nothing about a larger one
	case s.steep:
		s.size = min(s.most, 2*s.size)
	default:
		s.size = min(s.most, s.size+s.size/8+1)
	}
}

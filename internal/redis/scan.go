package redisserver

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/sys"
)

const (
	// keysPerScan is the most keys for one SCAN. A thousand take an idle server well under a millisecond.
	keysPerScan = 1000
	// KeysPerRead is the most keys that one pipeline reads.
	KeysPerRead = 250
)

// Scan reads the keys of servers.
type Scan struct {
	Servers *Servers
	// Match is the glob of the keys.
	Match string
	// Known gets the number of keys that are newly known to exist.
	Known func(ctx context.Context, keys int64) error
	// Read gets the pages; those of several masters concurrently. Some keys come twice. An error ends the scan of
	// that master.
	Read func(ctx context.Context, page Page) error
}

// Page is a part of the result of a scan.
type Page struct {
	Server    redis.Cmdable // the server of the keys
	StoreKeys []string      // those that match
	Looked    int           // the number of keys that the server read to find them
}

// All scans the keys of all masters concurrently. In a Cluster it repeats slots that moved meanwhile. A master that
// fails does not end the scan of the others.
func (s *Scan) All(ctx context.Context) error {
	if s.Servers.IsCluster() {
		return s.cluster(ctx)
	}
	return s.server(ctx, s.Servers.client)
}

// Tag scans the keys with a hash tag; in a Cluster only their slot.
func (s *Scan) Tag(ctx context.Context, tag string) error {
	if s.Servers.IsCluster() {
		return s.slot(ctx, SlotOf(tag))
	}
	return s.All(ctx)
}

// server scans the keys of one server. While one page is being read, the next is fetched.
func (s *Scan) server(ctx context.Context, server redis.Cmdable) error {
	walk := &walk{server: server}
	if err := walk.count(ctx); err != nil {
		return err
	}
	if err := s.Known(ctx, walk.total); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pages := make(chan Page, 1)
	walked := make(chan error, 1)
	panics.Go(func() error { return s.walk(ctx, walk, pages) }, func(err error) {
		walked <- err
		close(pages)
	})
	for page := range pages {
		if err := s.Read(ctx, page); err != nil {
			return err
		}
	}
	return <-walked
}

// walk sends the server's matching keys, a page for each SCAN.
func (s *Scan) walk(ctx context.Context, walk *walk, pages chan<- Page) error {
	stride := NewStride(keysPerScan)
	for ended := false; !ended; {
		count := stride.Size()
		var storeKeys []string
		if err := stride.Exchange(ctx, count, func() (err error) {
			storeKeys, ended, err = walk.next(ctx, s.Match, count)
			return err
		}); err != nil {
			return err
		}
		select {
		case pages <- Page{walk.server, storeKeys, max(count, len(storeKeys))}: // a server can return more than count
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// masters scans the keys of masters concurrently.
func (s *Scan) masters(ctx context.Context, masters []*redis.Client) error {
	var scanning panics.Group
	errs := make([]error, len(masters))
	for i, master := range masters {
		scanning.Go(func() {
			if err := s.server(ctx, master); err != nil {
				errs[i] = s.Servers.Incomplete(err, master)
			}
		})
	}
	errs = append(errs, scanning.Wait())
	return errors.Join(errs...)
}

const (
	// A scan may read walkTimes the number of keys, plus walkMore. It reads some twice if keys are added or the
	// server resizes its table. A table whose keys have just expired is nearly empty but still large, so most calls
	// then find nothing.
	walkTimes = 10
	walkMore  = 500_000
	// walkMost is the bound if the user lacks the right to know the number of keys.
	walkMost = 100_000_000
	// mostKeys is how many keys a server can have.
	mostKeys = 1 << 40
	// An answer may have givenTimes the requested number of keys, plus givenMore, since a server reads whole
	// buckets.
	givenTimes = 10
	givenMore  = 1000
)

// walk follows the SCANs of one server, and detects that they do not end.
type walk struct {
	server  redis.Cmdable
	total   int64 // the number of keys at the last count
	counted bool  // the user has the right to know it
	looked  int64
	cursor  uint64
}

// count gets the number of keys. Without the right to it there is no progress.
func (w *walk) count(ctx context.Context) error {
	total, err := w.server.DBSize(ctx).Result()
	if err == nil && (total < 0 || total > mostKeys) {
		err = &answerError{fmt.Sprintf("its DBSIZE is %d", total)}
	}
	if w.counted = !LacksRight(err); !w.counted {
		return nil
	}
	w.total = total
	return err
}

// next makes the server read count more keys. It returns those that match, and reports whether these were the last.
func (w *walk) next(ctx context.Context, match string, count int) (storeKeys []string, ended bool, err error) {
	storeKeys, cursor, err := w.server.Scan(ctx, w.cursor, match, int64(count)).Result()
	if err != nil {
		return nil, false, err
	}
	given := len(storeKeys)
	switch {
	case given > givenTimes*count+givenMore:
		return nil, false, &answerError{fmt.Sprintf("its SCAN gives %d keys where %d were asked for", given, count)}
	case cursor == 0:
		return storeKeys, true, nil
	case cursor == w.cursor:
		return nil, false, &answerError{fmt.Sprintf("its SCAN does not go on: the cursor %d came twice in a row", cursor)}
	}
	w.cursor = cursor
	w.looked += int64(max(count, given))
	return storeKeys, false, w.checkEnds(ctx)
}

// checkEnds returns an error if the walk has read more keys than there can be.
func (w *walk) checkEnds(ctx context.Context) error {
	if !w.counted && w.looked > walkMost {
		return &answerError{fmt.Sprintf("its SCAN has not ended after %d keys, and there is no right to DBSIZE", w.looked)}
	}
	most := func() int64 { return walkTimes*w.total + walkMore }
	if !w.counted || w.looked <= most() {
		return nil
	}
	if err := w.count(ctx); err != nil || w.looked <= most() { // there may be more by now
		return err
	}
	return &answerError{fmt.Sprintf("its SCAN does not end: %d keys were looked at, and there are %d", w.looked, w.total)}
}

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

// Seen remembers which keys a scan gave, since some come twice: from one server soon after one another, from the masters of
// a Cluster whenever their slot moves. It keeps 64-bit hashes: among ten million keys two share one with a probability of 3
// in a million. It is not safe for concurrent use.
type Seen struct {
	seed          maphash.Seed
	generation    int // how many of the last keys are remembered at least; 0 for all
	young, former map[uint64]struct{}
}

// seenGeneration is enough for one server with a table that shrinks to a hundred-thousandth in the middle of a scan. Its SCAN
// goes through the buckets of a hash table in an order in which the buckets that become one when the table shrinks are
// neighbours. So a key that comes twice does so within what one bucket of the smaller table holds.
const seenGeneration = 1 << 17

// NewSeen returns a Seen for one scan of the servers.
func (s *Servers) NewSeen() *Seen {
	seen := NewSeenAll()
	if !s.IsCluster() {
		seen.generation = seenGeneration
	}
	return seen
}

// NewSeenAll returns a Seen that remembers all keys.
func NewSeenAll() *Seen { return &Seen{seed: maphash.MakeSeed(), young: map[uint64]struct{}{}} }

// First reports whether a key comes for the first time, and remembers it.
func (s *Seen) First(storeKey string) bool {
	if s.Has(storeKey) {
		return false
	}
	if s.generation > 0 && len(s.young) >= s.generation {
		s.young, s.former = make(map[uint64]struct{}, s.generation), s.young
	}
	s.young[maphash.String(s.seed, storeKey)] = struct{}{}
	return true
}

// Has reports whether a key has come, as far as it is remembered.
func (s *Seen) Has(storeKey string) bool {
	hash := maphash.String(s.seed, storeKey)
	_, young := s.young[hash]
	_, former := s.former[hash]
	return young || former
}

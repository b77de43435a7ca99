package redisserver

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/sys"
)

const (
	// keysPerScan is the most keys for one SCAN. A thousand take an idle server well under a millisecond.
	keysPerScan = 1000
	// keysPerPage is how many keys are looked at before the progress is known.
	keysPerPage = 10_000
	// KeysPerRead is the most keys that one pipeline reads.
	KeysPerRead = 250
)

// Scan reads the keys of servers.
type Scan struct {
	Servers *Servers
	// Match is the glob of the keys.
	Match string
	// Stride returns the stride of exchanges with a server.
	Stride func(server redis.Cmdable) *Stride
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

// walk sends the server's matching keys, as many in a page as one exchange reads.
func (s *Scan) walk(ctx context.Context, walk *walk, pages chan<- Page) error {
	stride := s.Stride(walk.server)
	page := Page{Server: walk.server}
	for ended := false; !ended; {
		count := stride.Size()
		var storeKeys []string
		if err := stride.Exchange(ctx, count, func() (err error) {
			storeKeys, ended, err = walk.next(ctx, s.Match, count)
			return err
		}); err != nil {
			return err
		}
		page.StoreKeys = append(page.StoreKeys, storeKeys...)
		page.Looked += max(count, len(storeKeys)) // a server can return more than count
		if !ended && len(page.StoreKeys) < min(count, KeysPerRead) && page.Looked < keysPerPage {
			continue
		}
		select {
		case pages <- page:
			page = Page{Server: walk.server}
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
	// A scan may read walkTimes the number of keys, plus walkMore: some twice if keys are added or the server resizes
	// its table, and a table whose keys have just expired is nearly empty but still large.
	walkTimes = 10
	walkMore  = 500_000
	// walkMost is the bound if the user lacks the right to know the number of keys.
	walkMost = 100_000_000
	// mostKeys is how many keys a server can have.
	mostKeys = 1 << 40
	// An answer may have givenTimes the requested number of keys, plus givenMore, since a server reads whole buckets.
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
		return nil, false, &answerError{
			fmt.Sprintf("its SCAN does not go on: the cursor %d came twice in a row", cursor)}
	}
	w.cursor = cursor
	w.looked += int64(max(count, given))
	return storeKeys, false, w.checkEnds(ctx)
}

// checkEnds returns an error if the walk has read more keys than there can be.
func (w *walk) checkEnds(ctx context.Context) error {
	if !w.counted && w.looked > walkMost {
		return &answerError{fmt.Sprintf("its SCAN has not ended after %d keys, and there is no right to DBSIZE",
			w.looked)}
	}
	most := func() int64 { return walkTimes*w.total + walkMore }
	if !w.counted || w.looked <= most() {
		return nil
	}
	if err := w.count(ctx); err != nil || w.looked <= most() { // there may be more by now
		return err
	}
	return &answerError{fmt.Sprintf("its SCAN does not end: %d keys were looked at, and there are %d", w.looked,
		w.total)}
}

const (
	// strideTime is how much longer than the quickest answer one exchange of a scan may take, which others wait for. A
	// longer way to the server allows strideShare of it, since its times vary more.
	strideTime  = 150 * time.Microsecond
	strideShare = 8
	// firstStride is so small that the first answer takes hardly longer than the way there and back.
	firstStride = 10
	// leastStride is the least that a stride shrinks to. With fewer keys the way takes longer than the server's work.
	leastStride = 100
	// longestRest is the longest time between two exchanges. A server that takes longer is not busy with the scan.
	longestRest = 20 * time.Millisecond
	// nap is the shortest sleep, since many systems cannot sleep for less. A rest that is shorter adds up with those
	// after it.
	nap = time.Millisecond
)

// Stride is how many keys one exchange of a scan with a server is about. It grows while answers come quickly, and
// shrinks when they come late. It is safe for concurrent use: there is one exchange at a time.
type Stride struct {
	exchanging chan struct{} // has one while an exchange is under way
	size       atomic.Int64
	slow       bool          // an answer was late
	quickest   time.Duration // 0 before the first answer
	rested     time.Time     // when the server has rested from all exchanges
}

// NewStride returns the Stride of a scan that begins.
func NewStride() *Stride {
	s := &Stride{exchanging: make(chan struct{}, 1)}
	s.size.Store(firstStride)
	return s
}

// Size returns how many keys the next exchange should be about.
func (s *Stride) Size() int { return int(s.size.Load()) }

// Exchange does an exchange about that many keys and learns from how long it takes. Before that, it lets the server
// rest from those that were late. What the caller does in between counts as rest.
func (s *Stride) Exchange(ctx context.Context, keys int, do func() error) error {
	select {
	case s.exchanging <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.exchanging }()
	if rest := time.Until(s.rested); rest >= nap {
		if err := sys.Sleep(ctx, rest); err != nil {
			return err
		}
	}
	begun := time.Now()
	if err := do(); err != nil {
		return err
	}
	took := time.Since(begun)
	if earliest := begun.Add(-nap); s.rested.Before(earliest) { // a longer sleep than that is no credit
		s.rested = earliest
	}
	s.rested = s.rested.Add(took + s.learn(keys, took))
	return nil
}

// learn notes how long an exchange about that many keys took, and returns how long the server should rest from it: not
// at all from a quick one, since it is idle until the next one comes.
func (s *Stride) learn(keys int, took time.Duration) (rest time.Duration) {
	if s.quickest == 0 || took < s.quickest {
		s.quickest = took
	}
	size := s.Size()
	switch {
	case took-s.quickest > max(strideTime, s.quickest/strideShare):
		s.slow = true
		rest = min(took/2, longestRest)
		size = max(min(size, leastStride), min(size, keys)*2/3)
	case keys < size: // it says nothing about a larger one
	case s.slow:
		size += size/8 + 1
	default:
		size *= 2
	}
	s.size.Store(int64(min(size, keysPerScan)))
	return rest
}

// Seen remembers which keys a scan gave, since some come twice: from the masters of a Cluster whenever their slot
// moves. It keeps 64-bit hashes: among ten million keys two share one with a probability of 3 in a million. It is not
// safe for concurrent use.
type Seen struct {
	seed          maphash.Seed
	generation    int // how many of the last keys are remembered at least; 0 for all
	young, former map[uint64]struct{}
}

// seenGeneration is enough for one server with a table that shrinks to a hundred-thousandth in the middle of a scan.
// Its SCAN goes through the buckets of a hash table in an order in which the buckets that become one when the table
// shrinks are neighbours. So a key that comes twice does so within what one bucket of the smaller table holds.
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

package keyspace

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

// scan is one scan, whatever the layout. It reads from several goroutines.
type scan struct {
	*keys
	query   admin.Query
	batches chan batch
	strides sync.Map // of reading values, by redis.Cmdable
	spare   sync.Pool
}

// readMemory is what a batch is read into. A scan of millions of keys uses it again for the next ones.
type readMemory struct {
	values []heldValue
	kept   []found
}

// memory returns memory for that many keys.
func (sc *scan) memory(keys int) *readMemory {
	m, has := sc.spare.Get().(*readMemory)
	if !has || cap(m.values) < keys {
		m = &readMemory{values: make([]heldValue, 0, keys), kept: make([]found, 0, keys)}
	}
	m.values = m.values[:keys]
	return m
}

// release makes memory free for another batch. Nothing may refer to it any more.
func (sc *scan) release(m *readMemory) {
	clear(m.values)
	clear(m.kept[:cap(m.kept)])
	m.values, m.kept = m.values[:0], m.kept[:0]
	sc.spare.Put(m)
}

// stride returns the stride of reading values from a server.
func (sc *scan) stride(server redis.Cmdable) *redisserver.Stride {
	stride, has := sc.strides.Load(server)
	if !has {
		stride, _ = sc.strides.LoadOrStore(server, redisserver.NewStride(redisserver.KeysPerRead))
	}
	return stride.(*redisserver.Stride)
}

// batch is what a scan has read in one go.
type batch struct {
	found         []found
	memory        *readMemory // of found, if it can be used again
	looked, total int64       // keys looked at, and keys known of now for the first time
}

// found is an entry, or an error about its store key.
type found struct {
	entry admin.Entry
	err   error
}

// isUnused reports whether nothing of a limit is in use any more. A key with a defect counts as used, and one that never
// expires: they stay, so people want to see them.
func isUnused(e admin.Entry) bool {
	return e.UsedKnown() && e.Used <= 0 && e.TTL >= 0 && len(e.Defects) == 0
}

// newScan returns a scan for a query.
func (k *keys) newScan(q admin.Query) *scan {
	return &scan{keys: k, query: q, batches: make(chan batch)}
}

// run yields what send is given until reading is over. isFirst reports whether a store key has not come before; it is nil
// if read sees to that.
func (sc *scan) run(
	ctx context.Context, yield func(admin.Entry, error) bool, read func(context.Context) error, isFirst func(storeKey string) bool,
) {
	if err := sc.Check(); err != nil {
		yield(admin.Entry{}, err)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	scanned := make(chan error, 1)
	panics.Go(func() error { return read(ctx) }, func(err error) {
		scanned <- err
		close(sc.batches)
	})
	defer func() { // leave nothing running behind the caller's back
		cancel()
		for range sc.batches {
		}
	}()
	var looked, total int64
	for b := range sc.batches {
		for i := range b.found {
			f := &b.found[i]
			if (isFirst == nil || isFirst(f.entry.StoreKey)) && !yield(f.entry, f.err) {
				return
			}
		}
		if b.memory != nil {
			sc.release(b.memory)
		}
		looked, total = looked+b.looked, total+b.total
		sc.query.Report(min(looked, total), total)
	}
	if err := <-scanned; err != nil {
		yield(admin.Entry{}, sc.Explain(err, "scan", false, nil))
		return
	}
	sc.query.Report(total, total)
}

// known tells the caller how many more keys are now known to exist.
func (sc *scan) known(ctx context.Context, keys int64) error { return sc.send(ctx, batch{total: keys}) }

func (sc *scan) send(ctx context.Context, p batch) error {
	select {
	case sc.batches <- p:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readExactly has read look at exactly those store keys, some at a time, and at the server that has them.
func (sc *scan) readExactly(ctx context.Context, storeKeys []string, read func(server redis.Cmdable, batch []int) error) error {
	return sc.EachBatch(ctx, tagsOf(storeKeys), redisserver.KeysPerRead, func(batch []int) error {
		server, err := sc.Servers.ServerOf(ctx, storeKeys[batch[0]])
		if err != nil {
			return err
		}
		return sc.Named(read(server, batch), server)
	})
}

// sendBatch sends what read makes of all, which a server has: a stride at a time. looked is how many keys the batch had.
func sendBatch[T any](
	ctx context.Context, sc *scan, server redis.Cmdable, all []T, looked int64,
	read func(some []T, give func([]found) error) error,
) error {
	give := func(read []found) error { return sc.send(ctx, batch{found: read}) }
	for stride := sc.stride(server); len(all) > 0; {
		n := min(stride.Size(), len(all))
		if err := read(all[:n], give); err != nil {
			return err
		}
		all = all[n:]
	}
	return sc.send(ctx, batch{looked: looked})
}

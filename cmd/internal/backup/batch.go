package backup

import (
	"errors"
	"io"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// maxBatch is how many bytes the values of a batch have before it ends. A log of a
// million units has 10 MB, and five hundred of them are more than a server takes in
// one call, or than there is memory for.
const maxBatch = 4 << 20

// Batch is some records and the limit of each, as reading it has found out.
type Batch struct {
	Records []admin.Record
	Limits  []store.Limit
	// Used is what was in use of each record of another limiter when it was looked at, nil
	// where that was not known, and where the record itself says it.
	Used []*int64
}

// Add adds a record of a limit.
func (b *Batch) Add(r admin.Record, limit store.Limit) {
	b.Records, b.Limits = append(b.Records, r), append(b.Limits, limit)
}

// Split calls do with batches of at most size records of b.
func (b *Batch) Split(size int, do func(Batch) error) error {
	for from := 0; from < len(b.Records); from += size {
		to := min(from+size, len(b.Records))
		if err := do(Batch{Records: b.Records[from:to], Limits: b.Limits[from:to]}); err != nil {
			return err
		}
	}
	return nil
}

// Each calls do with batches of the records of a backup, each key once as it was
// last: what amends others is known if it was checked. A batch has at most size
// records, and fewer if they are large. The next one is read while do is at work.
func (c *Contents) Each(in io.Reader, size int, do func(Batch) error) error {
	batches, read, ended := make(chan Batch), make(chan error, 1), make(chan struct{})
	panics.Go(func() error {
		return c.batches(in, size, func(batch Batch) error {
			select {
			case batches <- batch:
				return nil
			case <-ended:
				return errEnded
			}
		})
	}, func(err error) {
		read <- err
		close(batches)
	})
	defer func() { // leave nothing reading behind the caller's back
		close(ended)
		for range batches {
		}
	}()
	for batch := range batches {
		if err := do(batch); err != nil {
			return err
		}
	}
	return <-read
}

// errEnded ends the reading of a backup whose batches are not wanted any more.
var errEnded = errors.New("no more batches are wanted")

// batches calls give with what Each is to do.
func (c *Contents) batches(in io.Reader, size int, give func(Batch) error) error {
	var batch Batch
	bytes := 0
	again := Contents{checked: c.checked}
	err := again.read(in, func(e *entry) error {
		if last, amended := c.amended[identityOf(&e.Record)]; amended && e.number != last || e.unchanged {
			return nil
		}
		batch.Add(e.Record, e.limit)
		batch.Used = append(batch.Used, e.used)
		bytes += e.Size()
		if len(batch.Records) < size && bytes < maxBatch {
			return nil
		}
		full := batch
		batch, bytes = Batch{}, 0
		return give(full)
	})
	if err != nil || len(batch.Records) == 0 {
		return err
	}
	return give(batch)
}

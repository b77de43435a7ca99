package backup

import (
	"errors"
	"io"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// maxBatch is the size of the values, in bytes, at which a batch ends. A log of a million units has 10 MB, and five
// hundred of them are too much for one call of a server, or for the memory.
const maxBatch = 4 << 20

// Batch is some records with their limits.
type Batch struct {
	Records []admin.Record
	Limits  []store.Limit
	// Last is the line of the last record in the backup.
	Last int64
	// Unreached: the change that made the backup ended before it came to these records. It is false if that is not known.
	Unreached bool
}

// Add adds a record with its limit.
func (b *Batch) Add(r admin.Record, limit store.Limit) {
	b.Records, b.Limits = append(b.Records, r), append(b.Limits, limit)
}

// Split calls do with parts of b of at most size records.
func (b *Batch) Split(size int, do func(Batch) error) error {
	for from := 0; from < len(b.Records); from += size {
		to := min(from+size, len(b.Records))
		if err := do(Batch{Records: b.Records[from:to], Limits: b.Limits[from:to]}); err != nil {
			return err
		}
	}
	return nil
}

// Each calls do with batches of the records of a backup, each key once in its last state. Amendments are known only
// after Check, and so is which records the change has not reached. A batch has at most size records, and fewer if they are
// large. The next one is read while do works.
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
	defer func() { // end the reader before the return
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

// errEnded ends the reading of a backup whose batches are no longer wanted.
var errEnded = errors.New("no more batches are wanted")

// batches calls give with the batches for Each.
func (c *Contents) batches(in io.Reader, size int, give func(Batch) error) error {
	var batch Batch
	bytes := 0
	flush := func(unreached bool) error { // and the next batch is of such records
		full := batch
		batch, bytes = Batch{Unreached: unreached}, 0
		if len(full.Records) == 0 {
			return nil
		}
		return give(full)
	}
	again := Contents{checked: c.checked}
	marked := c.Marked && c.Damaged == 0 && !c.Torn // else a mark may be lost
	err := again.read(in, func(e *entry) error {
		if last, amended := c.amended[identityOf(&e.Record)]; amended && e.number != last || e.unchanged {
			return nil
		}
		if unreached := marked && e.number > c.begun && !e.amends; unreached != batch.Unreached {
			if err := flush(unreached); err != nil {
				return err
			}
		}
		batch.Add(e.Record, e.limit)
		batch.Last = e.number
		bytes += e.Size()
		if len(batch.Records) < size && bytes < maxBatch {
			return nil
		}
		return flush(batch.Unreached)
	})
	if err != nil {
		return err
	}
	return flush(false)
}

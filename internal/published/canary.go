package published

import (
	"context"
	"fmt"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// tried returns the version that is tried, whose text is dropped when that ends; none without a canary.
func (s *State) tried() []int64 {
	if !s.Head.Next.Exists() {
		return nil
	}
	return []int64{s.Head.Next.Version}
}

// Try returns the change that tries a version beside the one in force: a new version, or with another plan the one that is
// tried already, if its text is the same. There has to be a version in force. It completes v.
func (s *State) Try(v *Version, plan Canary) admin.ConfigChange {
	v.Schema, v.Hash = Schema, Hash(v.Text)
	line := Line{Did: didShadow, By: v.By, Reason: v.Reason, Hash: v.Hash, Share: plan.Share, Attribute: plan.By, Until: plan.Until}
	if plan.Share > 0 {
		line.Did = didCanary
	}
	head := s.Head
	c := admin.ConfigChange{Was: s.Was}
	if s.Head.Next.Exists() && s.Head.Next.Hash == v.Hash {
		v.Number = s.Head.Next.Version
		for i := range s.Lines {
			if s.Lines[i].Version == v.Number {
				line.Bytes = s.Lines[i].Bytes
			}
		}
	} else {
		v.Number = s.NextNumber()
		c.Version, c.Record, c.Drop = v.Number, v.Record(), s.tried()
		line.Bytes = len(c.Record)
		var drop []int64
		head.Oldest, drop = s.oldestBeside(v.Number, line.Bytes)
		c.Drop = append(c.Drop, drop...)
	}
	line.Version = v.Number
	plan.Version, plan.Hash = v.Number, v.Hash
	head.Next = plan
	c.Head, c.Line = head.Text(), jsonText(line)
	return c
}

// oldestBeside is oldest for a version that is tried: the one in force stays.
func (s *State) oldestBeside(number int64, size int) (oldest int64, drop []int64) {
	oldest, drop = s.oldest(number, size)
	if oldest <= s.Head.Version {
		return oldest, drop
	}
	drop = drop[:0]
	for n := s.Head.Oldest; n < s.Head.Version; n++ {
		drop = append(drop, n)
	}
	return s.Head.Version, drop
}

// Promote returns the change that puts the version in force that is tried, alone. v has who and why, and gets its number.
func (s *State) Promote(v *Version) admin.ConfigChange {
	next := s.Head.Next
	v.Number, v.Hash = next.Version, next.Hash
	head := Head{Version: next.Version, Hash: next.Hash, Oldest: s.Head.Oldest}
	return admin.ConfigChange{Was: s.Was, Head: head.Text(), Line: s.lineOfNext(v, didPromote)}
}

// Withdraw returns the change that leaves the version in force alone. v has who and why, and gets the number of the
// version that was tried.
func (s *State) Withdraw(v *Version) admin.ConfigChange {
	head := s.Head
	v.Number, v.Hash, head.Next = head.Next.Version, head.Next.Hash, Canary{}
	return admin.ConfigChange{Was: s.Was, Head: head.Text(), Line: s.lineOfNext(v, didWithdraw), Drop: s.tried()}
}

func (s *State) lineOfNext(v *Version, did string) string {
	line := Line{Version: v.Number, Did: did, By: v.By, Reason: v.Reason, Hash: v.Hash}
	for i := range s.Lines {
		if s.Lines[i].Version == v.Number {
			line.Bytes = s.Lines[i].Bytes
		}
	}
	return jsonText(line)
}

// Next is the next version, as a follower tries it.
type Next struct {
	*Version
	Trial *Trial
}

// next returns the next version that a head names, nil for none. It is the one that is tried already, if only its end
// differs. An error says why it cannot be tried, or a [*readError] why that is not known.
func (f *Follower) next(ctx context.Context, head *Head, now *Next) (*Next, error) {
	plan := head.Next
	if !plan.Exists() {
		return nil, nil
	}
	if now != nil {
		same := now.Trial.Plan
		if same.Until = plan.Until; same == plan {
			if err := f.setEnd(ctx, now.Trial, plan.Until); err != nil {
				return nil, err
			}
			now.Trial.until.Store(int64(plan.Until))
			return now, nil
		}
	}
	trial := newTrial(plan, f.Now)
	if err := f.setEnd(ctx, trial, plan.Until); err != nil {
		return nil, err
	}
	if trial.Ended() {
		return nil, nil
	}
	var known *Version
	if now != nil {
		known = now.Version
	}
	v, _, err := f.fetch(ctx, plan.Version, plan.Hash, known)
	if err != nil {
		return nil, err
	}
	return &Next{v, trial}, nil
}

// setEnd tells a trial when it ends by the clock of this process. The store's clock decides that, so it is read.
func (f *Follower) setEnd(ctx context.Context, t *Trial, until store.Instant) error {
	if until == 0 {
		t.ends.Store(nil)
		return nil
	}
	before := f.Now()
	now, err := f.Table.ConfigTime(ctx)
	if err != nil {
		return &readError{fmt.Errorf("the end of version %d, which is tried, is not known: %w", t.Plan.Version, err)}
	}
	ends := before.Add(until.Time().Sub(now.Time()))
	t.ends.Store(&ends)
	return nil
}

package joint

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
	"github.com/limitctl/limitctl/pkg/loadgen/audit/interval"
)

// driven returns the records of machines that drove one limiter at once, each by a clock of its own. The limiter lets in
// more units than its limit.
func driven(t *testing.T, text string, machines int, more int64, apart time.Duration) (all []*Reader) {
	t.Helper()
	keys := keysOf(t, 3, text)
	limit := keys.Rules[0].Limit
	limit.Count += more
	if limit.Algorithm.HasBurst() {
		limit.Burst += more
	}
	random := rand.New(rand.NewPCG(5, uint64(machines)))
	states := make([]store.State, 3)
	writers := make([]*Writer, machines)
	for i := range writers {
		writers[i] = NewIntervalWriter([]Keys{keys}, interval.Options{Resolution: time.Millisecond, Skew: -1})
	}
	at := store.Instant(1_700_000_000_000_000)
	for n := range 1500 {
		at += store.Instant(random.Int64N(4000))
		key, from := uint32(random.IntN(3)), random.IntN(machines)
		request, decision := store.Request{Limit: limit, Cost: 1}, store.Decision{}
		store.DecideOne(store.Take, &request, &states[key], &decision, at)
		ahead := store.Instant(int64(from) * apart.Microseconds() / int64(max(1, machines-1)))
		o := interval.Observation{
			Key: key, Cost: 1, Sent: at + ahead - store.Instant(random.Int64N(2000)),
			Answered: at + ahead + store.Instant(random.Int64N(2000)),
		}
		if !decision.Allowed {
			o.Answer = interval.Denied
		}
		writers[from].AddInterval(0, &o)
		if n%50 == 49 {
			for i, w := range writers {
				w.Settle(at - 5000 + store.Instant(int64(i)*apart.Microseconds()/int64(max(1, machines-1))))
			}
		}
	}
	for _, w := range writers {
		all = append(all, read(t, w))
	}
	return all
}

// The answers of machines are audited together: a limiter that is right never fails, whatever each machine saw of it, and
// one unit too many is found though no machine was admitted too much itself.
func TestMachinesThatDroveOneEndpoint(t *testing.T) {
	for _, text := range []string{"token-bucket:10/1s", "sliding-log:10/1s", "fixed-window:10/1s", "fixed-window:10/1s,from=first"} {
		for _, apart := range []time.Duration{0, 20 * time.Millisecond} {
			for _, more := range []int64{0, 3} {
				findings, sensitivities, err := AuditIntervals(apart, driven(t, text, 3, more, apart)...)
				if err != nil {
					t.Fatal(err)
				}
				if f := findings[0]; f.OverAdmitted > 0 != (more > 0) || more == 0 && f.UnderAdmitted > 0 || f.Keys != 3 ||
					f.OutOfOrder > 0 || sensitivities[0].LeastOver == 0 {
					t.Errorf("%s, %s apart, %d more: %+v, %+v", text, apart, more, f, sensitivities[0])
				}
			}
		}
	}
	alone, _, err := AuditIntervals(0, driven(t, "sliding-log:10/1s", 3, 3, 0)[:1]...)
	if err != nil || alone[0].OverAdmitted > 0 {
		t.Errorf("alone: %+v, %v", alone, err)
	}
}

// A record of intervals is none of instants, and a damaged one is refused.
func TestRecordsOfIntervalsAreToldApart(t *testing.T) {
	of := func() *Reader { return driven(t, "sliding-log:10/1s", 1, 0, 0)[0] }
	if _, err := Audit(of()); !errors.Is(err, ErrOtherKeys) {
		t.Errorf("as instants: %v", err)
	}
	w := NewWriter([]Keys{keysOf(t, 3, "sliding-log:10/1s")})
	if _, _, err := AuditIntervals(0, of(), read(t, w)); !errors.Is(err, ErrOtherKeys) {
		t.Errorf("as intervals: %v", err)
	}
	for _, wrong := range []interval.Observation{
		{Key: 3, Cost: 1}, {Cost: 0}, {Cost: 1, Answered: -1}, {Cost: 1, Answer: 9}, {Cost: 1, Sent: -1},
		{Cost: 1, Answered: store.Instant(25 * time.Hour / time.Microsecond)},
	} {
		w := NewIntervalWriter([]Keys{keysOf(t, 3, "sliding-log:10/1s")}, interval.Options{})
		w.AddInterval(0, &wrong)
		if _, _, err := AuditIntervals(0, read(t, w)); err == nil {
			t.Errorf("%+v is read", wrong)
		}
	}
}

// Records whose keys differ are not audited together, whatever their fingerprints say.
func TestKeysAreComparedWhateverFingerprintsSay(t *testing.T) {
	limits := []Keys{keysOf(t, 4, "10/1s"), keysOf(t, 1, "10/1s")}
	w := NewWriter(limits[:1])
	w.Add(&Entry{Observation: audit.Observation{Key: 3, At: 1, Cost: 1, Allowed: true, Charged: true}})
	few, more := read(t, NewWriter([]Keys{keysOf(t, 3, "10/1s")})), read(t, w)
	more.Fingerprint = few.Fingerprint
	if _, err := Audit(few, more); !errors.Is(err, ErrOtherKeys) {
		t.Errorf("as instants: %v", err)
	}
	for limit, all := range [][]Keys{limits[:1], limits} {
		w := NewIntervalWriter(all, interval.Options{})
		w.AddInterval(uint8(limit), &interval.Observation{Key: uint32(3 - 3*limit), Cost: 1})
		few, more := read(t, NewIntervalWriter([]Keys{keysOf(t, 3, "10/1s")}, interval.Options{})), read(t, w)
		more.Fingerprint = few.Fingerprint
		if _, _, err := AuditIntervals(0, few, more); !errors.Is(err, ErrOtherKeys) {
			t.Errorf("as intervals, %d limits: %v", len(all), err)
		}
	}
}

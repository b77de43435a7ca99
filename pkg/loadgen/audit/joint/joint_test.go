package joint

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
	"github.com/limitctl/limitctl/pkg/loadgen/audit"
)

// keysOf returns so many keys under a limit.
func keysOf(t *testing.T, n int, text string) Keys {
	t.Helper()
	limit, err := store.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	if limit, err = limit.Normalize(); err != nil {
		t.Fatal(err)
	}
	var k Keys
	for i := range n {
		k.Add(fmt.Sprintf("user:%d", i), limit)
	}
	return k
}

// read closes a record and reads it.
func read(t *testing.T, w *Writer) *Reader {
	t.Helper()
	data, problem := w.Close()
	r, err := NewReader(data)
	if err != nil || problem != "" {
		t.Fatalf("%v %s", err, problem)
	}
	return r
}

// Every entry is read as it was written, whatever is in it.
func TestARecordIsReadAsItWasWritten(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	limits := []Keys{keysOf(t, 7, "sliding-counter:10/1s,slices=4"), keysOf(t, 300, "5/1m")}
	other := limits[1].Rules[0].Limit
	other.Count = 9
	limits[1].Add("user:300", other)
	limits[1].Doubted = []uint32{3}
	w := NewWriter(limits)
	var want []Entry
	at := store.Instant(1_700_000_000_000_000)
	for range 20_000 {
		at += store.Instant(random.Int64N(1000) - 100)
		e := Entry{Limit: uint8(random.IntN(2)), Unknown: random.IntN(4) == 0, Doubted: random.IntN(9) == 0}
		e.Cost, e.At, e.Allowed, e.Charged = 1, at, random.IntN(2) == 0, random.IntN(2) == 0
		e.Key = uint32(random.IntN(len(limits[e.Limit].Names)))
		if random.IntN(3) == 0 {
			e.Cost = 1 + random.Int64N(1000)
		}
		if random.IntN(3) == 0 {
			e.Leave = random.Int64N(store.MaxCount + 1)
		}
		if !e.Unknown && random.IntN(4) > 0 {
			e.Reported = &audit.Figures{
				Used: random.Int64N(20) - 2, Remaining: random.Int64N(20) - 2, RetryAfter: time.Duration(random.Int64N(3) * 1000),
				ResetAfter: time.Duration(random.Int64N(1e10) - 5e9), Delay: time.Duration(random.Int64N(2)),
			}
		}
		want = append(want, e)
		w.Add(&e)
	}
	r := read(t, w)
	if !reflect.DeepEqual(r.header.Limits, limits) || r.Name(1, 3) != "user:3" {
		t.Errorf("the keys are %+v", r.header.Limits[1])
	}
	for i := range want {
		var e Entry
		if ok, err := r.next(&e, new(audit.Figures)); !ok || err != nil || !reflect.DeepEqual(e, want[i]) {
			t.Fatalf("entry %d is %+v, %v, want %+v", i, e, err, want[i])
		}
	}
	if ok, err := r.next(new(Entry), nil); ok || err != nil {
		t.Errorf("after the end: %v, %v", ok, err)
	}
}

// answers answers requests of machines in any order, as a store without a defect does.
func answers(keys Keys, machines, n int, random *rand.Rand) (all [][]Entry) {
	all = make([][]Entry, machines)
	states := make([]store.State, len(keys.Names))
	at := store.Instant(1_700_000_000_000_000)
	for range n {
		at += store.Instant(random.Int64N(4) * 100) // several of one instant
		key := random.IntN(len(states))
		s := &states[key]
		request := store.Request{Limit: keys.Rules[0].Limit, Cost: 1 + random.Int64N(2), Leave: 4 * random.Int64N(2)}
		var d store.Decision
		store.DecideOne(store.Take, &request, s, &d, at)
		e := Entry{Observation: audit.Observation{
			Key: uint32(key), Cost: request.Cost, Leave: request.Leave, At: at, Allowed: d.Allowed, Charged: d.Allowed,
			Reported: &audit.Figures{Used: d.Used, Remaining: d.Remaining, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter,
				Delay: d.Delay},
		}}
		m := random.IntN(machines)
		all[m] = append(all[m], e)
	}
	return all
}

// write returns records of what machines were answered.
func write(t *testing.T, keys Keys, all [][]Entry) (readers []*Reader) {
	t.Helper()
	for _, entries := range all {
		w := NewWriter([]Keys{keys})
		slices.SortStableFunc(entries, func(a, b Entry) int { // as a machine's audit does
			return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.used(), b.used()), cmp.Compare(a.kind(), b.kind()))
		})
		for i := range entries {
			w.Add(&entries[i])
		}
		readers = append(readers, read(t, w))
	}
	return readers
}

// The answers of three machines are right together, though each machine alone was denied what
// would have fitted.
func TestTheAnswersOfSeveralMachinesAreRightTogether(t *testing.T) {
	for _, limit := range []string{
		"token-bucket:10/100ms", "leaky-bucket:10/100ms", "fixed-window:10/100ms", "sliding-log:10/100ms", "sliding-counter:10/100ms",
		"sliding-counter:10/100ms,slices=5",
	} {
		t.Run(limit, func(t *testing.T) {
			keys := keysOf(t, 5, limit)
			all := answers(keys, 3, 30_000, rand.New(rand.NewPCG(2, 2)))
			findings, err := Audit(write(t, keys, all)...)
			if err != nil {
				t.Fatal(err)
			}
			f := findings[0]
			if f.OverAdmitted != 0 || f.UnderAdmitted != 0 || f.Lied != 0 || f.Reported < 29_000 || f.Denied < 1000 || f.PeakRatio != 1 {
				t.Errorf("together: %+v", f)
			}
			if alone, err := Audit(write(t, keys, all[:1])...); err != nil || alone[0].UnderAdmitted == 0 || alone[0].OverAdmitted != 0 {
				t.Errorf("alone: %+v, %v", alone, err)
			}
		})
	}
}

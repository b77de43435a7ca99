package backup

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// value returns the record of a limit with that usage.
func value(tb testing.TB, limit store.Limit, used int64) []byte {
	tb.Helper()
	var record []byte
	limit, err := limit.Normalize()
	if err != nil {
		tb.Fatal(err)
	}
	state := store.State{}
	reqs := []store.Request{{Key: store.Key{Subject: "u", Name: "n"}, Limit: limit, Cost: used}}
	_, _ = store.Decide(store.Take, reqs, []*store.State{&state}, make([]store.Decision, 1), nil, 1e15)
	if record = state.AppendRecord(nil); len(record) == 0 {
		tb.Fatalf("%s with %d used has no record", limit, used)
	}
	return record
}

var tenAnHour = store.Limit{Count: 1000, Period: time.Hour}

func record(tb testing.TB, subject string, used int64) admin.Record {
	return admin.Record{Key: store.Key{Subject: subject, Name: "n"}, Value: value(tb, tenAnHour, used),
		Expires: time.UnixMilli(1_800_000_000_000 + used)}
}

// written returns a backup with records and amendments.
func written(tb testing.TB, records, amendments []admin.Record) []byte {
	tb.Helper()
	var file bytes.Buffer
	w, err := NewWriter(&file, Header{Store: "s", Prefix: "rl"})
	if err == nil {
		err = errors.Join(w.Write(false, records...), w.Write(true, amendments...), w.Flush())
	}
	if err != nil {
		tb.Fatal(err)
	}
	return file.Bytes()
}

// read returns what a backup brings back, and the number of batches.
func read(file []byte, size int) (c *Contents, records []admin.Record, batches int, err error) {
	if c, err = Check(bytes.NewReader(file)); err != nil {
		return c, nil, 0, err
	}
	err = c.Each(bytes.NewReader(file), size, func(batch Batch) error {
		if len(batch.Records) == 0 || len(batch.Records) > size || len(batch.Limits) != len(batch.Records) {
			return fmt.Errorf("a batch of %d of %d limits, and at most %d were asked for", len(batch.Records),
				len(batch.Limits), size)
		}
		for i, r := range batch.Records {
			if limit, err := store.DecodeRecordLimit(r.Value); err != nil || limit != batch.Limits[i] {
				return fmt.Errorf("the limit of %s is %s, not %s (%v)", r.Key, limit, batch.Limits[i], err)
			}
		}
		records = append(records, batch.Records...)
		batches++
		return nil
	})
	return c, records, batches, err
}

func same(a, b admin.Record) bool {
	return a.Key == b.Key && bytes.Equal(a.Value, b.Value) && a.Expires.Equal(b.Expires)
}

// All records come back, each key once in its last state; and from a truncated file all that is complete.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		subjects := rapid.SliceOfNDistinct(
			rapid.OneOf(rapid.SampledFrom([]string{"*", `a[b]?\`, "\u2028", "<&>", "日本", `"`, "\u202e"}),
				rapid.StringMatching(`[a-z:"\\]{1,20}`)), 1, 20, rapid.ID[string]).Draw(rt, "subjects")
		var records, amendments []admin.Record
		last := map[store.Key]admin.Record{}
		for _, subject := range subjects {
			r := record(t, subject, rapid.Int64Range(1, 1000).Draw(rt, "used"))
			if rapid.Bool().Draw(rt, "for ever") {
				r.Expires = time.Time{}
			}
			records, last[r.Key] = append(records, r), r
		}
		for range rapid.IntRange(0, 5).Draw(rt, "amendments") { // also several for one key
			r := record(t, rapid.SampledFrom(subjects).Draw(rt, "amended"), rapid.Int64Range(1, 1000).Draw(
				rt, "used since"))
			amendments, last[r.Key] = append(amendments, r), r
		}
		file := written(t, records, amendments)
		c, got, _, err := read(file, rapid.IntRange(1, 25).Draw(rt, "size"))
		if err != nil || c.Records != len(records) || c.Damaged > 0 || c.Prefix != "rl" || len(got) != len(records) {
			rt.Fatalf("%d records come back as %d: %+v, %v", len(records), len(got), c, err)
		}
		for _, r := range got {
			if !same(r, last[r.Key]) {
				rt.Fatalf("%v comes back as %v", last[r.Key], r)
			}
		}

		header := bytes.IndexByte(file, '\n') + 1
		end := rapid.IntRange(header, len(file)).Draw(rt, "torn at")
		c, got, _, err = read(file[:end], 10)
		lines := bytes.Count(file[header:end], []byte("\n"))
		if err != nil || (c.Damaged == 1) != (file[end-1] != '\n') || c.Records != min(lines, len(records)) ||
			len(got) != c.Records {
			rt.Fatalf("torn after %d lines it has %d records: %+v, %v", lines, len(got), c, err)
		}
	})
}

// A few large records make a batch, since they have to fit into memory, and into one call.
func TestBatchesOfLargeRecords(t *testing.T) {
	t.Parallel()
	log := store.Limit{Algorithm: store.SlidingLog, Count: 1_000_000, Period: time.Hour}
	large := admin.Record{Key: store.Key{Name: "n"}, Expires: time.UnixMilli(1_800_000_000_000)}
	// A log that was written unit by unit is as long as its count.
	state := store.State{}
	reqs := []store.Request{{Key: store.Key{Subject: "u", Name: "n"}, Limit: log, Cost: 1}}
	reqs[0].Limit, _ = log.Normalize()
	for at := range 250_000 {
		_, _ = store.Decide(store.Take, reqs, []*store.State{&state}, make([]store.Decision, 1), nil,
			store.Instant(1e15+at))
	}
	large.Value = state.AppendRecord(nil)
	if len(large.Value) < maxBatch/3 {
		t.Fatalf("a log of %d bytes is not large", len(large.Value))
	}
	var records []admin.Record
	for i := range 12 {
		large.Key.Subject = fmt.Sprint(i)
		records = append(records, large)
	}
	_, got, batches, err := read(written(t, records, nil), 500)
	if err != nil || len(got) != 12 || batches < 4 {
		t.Errorf("%d records of %d bytes came in %d batches, %v", len(got), len(large.Value), batches, err)
	}
}

func TestFilesThatAreNotBackups(t *testing.T) {
	for _, test := range []struct{ name, file, want string }{
		{"empty", "", "it is empty"},
		{"no header", `{"key":"u"}` + "\n", "its first line is not that of a backup"},
		{"a prefix twice", `{"limitctl_backup":1,"prefix":"a","prefix":"b"}` + "\n",
			"its first line is not that of a backup"},
		{"a later version", `{"limitctl_backup":2}` + "\n", "it is a backup of version 2"},
		{"a torn header", `{"limitctl_backup":1,"pre`, "its first line is not that of a backup"},
		{"a header without end", strings.Repeat(" ", maxHeader+1), "its first line is not that of a backup"},
	} {
		if _, err := Check(strings.NewReader(test.file)); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s…", test.name, err, test.want)
		}
	}
}

// A line that is not a record is reported by its number, and the records around it come back.
func TestADamagedLineCostsItselfAlone(t *testing.T) {
	sound := string(written(t, []admin.Record{record(t, "u", 1)}, nil))
	header, line, _ := strings.Cut(sound, "\n")
	after := strings.Replace(line, `"key":"u"`, `"key":"after"`, 1)
	with := func(old, new string) string {
		if !strings.Contains(line, old) {
			t.Fatalf("there is no %s in %s", old, line)
		}
		return strings.Replace(line, old, new, 1)
	}
	for _, test := range []struct{ name, line, want string }{
		{"zeros, where the disk failed", strings.Repeat("\x00", 4096) + "\n", "line 3: it is not a record"},
		{"deep", strings.Repeat("[", 100_000) + "\n", "line 3: it is not a record"},
		{"two on a line", strings.TrimSuffix(line, "\n") + line,
			"line 3: it is not a record: jsontext: invalid character '{' after"},
		{"a field twice", with(`"name"`, `"key":"v","name"`),
			`line 3: it is not a record: jsontext: duplicate object member name "key"`},
		{"no name", with(`"name":"n"`, `"name":""`), "line 3: it names no limit"},
		{"after all stores end", with(`"expires_ms":1800000000001`, `"expires_ms":9223372036854775807`),
			"line 3: expires_ms 9223372036854775807 is neither a time"},
		{"a value of somebody else's", with(`"value":"`, `"value":"AAAA`),
			"line 3: the value of key u n is not a limit record"},
		{"a subject that ends early", with(`"key":"u"`, `"key":"u}:x{"`), "line 3: subject"},
		{"too long", strings.Repeat("x", maxLine+1<<17) + "\n", "line 3: it is longer than"},
	} {
		c, got, _, err := read([]byte(header+"\n"+line+test.line+after), 10)
		if err != nil || c.Damaged != 1 || len(c.Damage) != 1 || !strings.HasPrefix(c.Damage[0].Error(), test.want) {
			t.Errorf("%s: %v, %d damaged: %v; want %s…", test.name, err, c.Damaged, c.Damage, test.want)
			continue
		}
		if c.Records != 2 || len(got) != 2 || got[0].Key.Subject != "u" || got[1].Key.Subject != "after" {
			t.Errorf("%s: around it there are %d records, and %v come back", test.name, c.Records, got)
		}
	}
	c, err := Check(strings.NewReader(header + "\n" + strings.Repeat("x\n", 1000) + line))
	if err != nil || c.Damaged != 1000 || len(c.Damage) != keptDamage || c.Records != 1 {
		t.Errorf("of a thousand damaged lines %d are counted and %d kept, %v", c.Damaged, len(c.Damage), err)
	}
}

// Reading any file neither panics nor brings back a record that a store could not accept; and a new backup of the
// result brings back the same.
func FuzzBackup(f *testing.F) {
	one, two := record(f, "u", 1), record(f, "tenant:*", 7)
	whole := written(f, []admin.Record{one, two}, []admin.Record{record(f, "u", 9)})
	f.Add(whole)
	f.Add(whole[:len(whole)-9])
	f.Add([]byte(`{"limitctl_backup":1}` + "\n" + `{"key":"u","name":"n","value":"` +
		base64.StdEncoding.EncodeToString(one.Value) + `","expires_ms":-1,"amends":true}` + "\n"))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		_, records, _, err := read(file, 3)
		if err != nil {
			return
		}
		for i := range records {
			if err := records[i].Check(); err != nil || records[i].Key.Name == "" {
				t.Errorf("it brings back %+v: %v", records[i], err)
			}
		}
		_, again, _, err := read(written(t, records, nil), 3)
		if err != nil || len(again) != len(records) {
			t.Fatalf("%d records come back as %d, %v", len(records), len(again), err)
		}
		for i := range records {
			if !same(records[i], again[i]) {
				t.Errorf("%v comes back as %v", records[i], again[i])
			}
		}
	})
}

// reached are the subjects of a backup, by batch; those that a change has not reached are in capitals.
func reached(t *testing.T, file []byte) string {
	t.Helper()
	c, err := Check(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	var batches []string
	if err := c.Each(bytes.NewReader(file), 10, func(b Batch) error {
		names := ""
		for i := range b.Records {
			names += b.Records[i].Key.Subject
		}
		if b.Unreached {
			names = strings.ToUpper(names)
		}
		batches = append(batches, names)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(batches, "|")
}

// How far a change came is not a record. What it had not reached comes in batches of its own; what it has amended it
// had reached. If a mark may be lost, nothing is known.
func TestHowFarAChangeCame(t *testing.T) {
	all := []admin.Record{record(t, "a", 1), record(t, "b", 2), record(t, "c", 3), record(t, "d", 4)}
	file := written(t, all, nil)
	first := `{"begun":2,"amends":true}` + "\n"
	for name, test := range map[string]struct {
		marked  bool
		marks   string
		want    string
		damaged int
	}{
		"of an older version": {false, "", "abcd", 0},
		"not begun":           {true, "", "ABCD", 0},
		"to the first":        {true, first, "a|BCD", 0},
		"twice":               {true, first + `{"begun":3,"amends":true}` + "\n", "ab|CD", 0},
		"to the end":          {true, `{"begun":5,"amends":true}` + "\n", "abcd", 0},
		"cut":                 {true, first + `{"begun":5,"ame`, "abcd", 1},
		"cut at its end":      {true, first + `{"begun":5}`, "abcd", 1},
		"damaged":             {true, first + `{"begun":5,"ame` + "\n", "abcd", 1},
	} {
		t.Run(name, func(t *testing.T) {
			text := append(bytes.Clone(file), test.marks...)
			if test.marked {
				text = bytes.Replace(text, []byte(`"store":`), []byte(`"marked":true,"store":`), 1)
			}
			c, err := Check(bytes.NewReader(text))
			if err != nil || c.Records != len(all) || c.Damaged != test.damaged || c.Marked != test.marked {
				t.Fatalf("it has %+v, %v", c, err)
			}
			if got := reached(t, text); got != test.want {
				t.Errorf("it has %q, want %s", got, test.want)
			}
		})
	}

	// The writer says it as it is read, of the batch that is meant.
	var out bytes.Buffer
	w, err := NewWriter(&out, Header{Store: "s", Prefix: "rl", Marked: true})
	if err = errors.Join(err, w.Write(false, all...), w.Flush()); err != nil {
		t.Fatal(err)
	}
	var lasts []int64
	err = new(Contents).Each(bytes.NewReader(out.Bytes()), 3, func(b Batch) error {
		lasts = append(lasts, b.Last)
		return nil
	})
	if err != nil || !slices.Equal(lasts, []int64{4, 5}) {
		t.Fatalf("the batches end at lines %v, %v", lasts, err)
	}
	if err := errors.Join(w.WriteBegun(lasts[0]), w.Write(true, record(t, "b", 9)), w.Flush()); err != nil {
		t.Fatal(err)
	}
	if got := reached(t, out.Bytes()); got != "ac|D|b" {
		t.Errorf("reached are %q", got)
	}

	// What somebody else wrote is no such line.
	for _, odd := range []string{`{"begun":-1}`, `{"key":"a","name":"n","begun":2}`, `{"begun":"2"}`} {
		c, err := Check(strings.NewReader(string(file) + odd + "\n"))
		if err != nil || c.Damaged != 1 || c.begun != 0 {
			t.Errorf("%s: it has %+v, %v", odd, c, err)
		}
	}
}

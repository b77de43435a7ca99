package policyfile_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// measure says what it costs that processes watch a store in which nothing is published, and checks that a look is one read.
func (f *fleet) measure(master string) {
	f.t.Helper()
	const looks = 400
	ctx := f.t.Context()
	client := redis.NewClient(&redis.Options{Addr: master, DisableIdentity: true})
	defer client.Close()
	figures := func() (in, out, reads, micros int64) {
		text, err := client.Info(ctx, "stats", "commandstats").Result()
		if err != nil {
			f.t.Fatal(err)
		}
		after := func(name string) string { _, rest, _ := strings.Cut(text, name); return rest }
		fmt.Sscan(after("total_net_input_bytes:"), &in)
		fmt.Sscan(after("total_net_output_bytes:"), &out)
		fmt.Sscanf(after("cmdstat_getrange:"), "calls=%d,usec=%d", &reads, &micros)
		return in, out, reads, micros
	}
	looked := func() (n int) {
		for _, m := range f.members {
			n += m.recorder.looked()
		}
		return n
	}
	before := make([]int, len(f.members))
	for i, m := range f.members {
		before[i] = m.recorder.looked()
	}
	in, out, reads, micros := figures()
	begun, first := time.Now(), looked()
	f.until("processes look", func() bool { return looked() >= first+looks })
	in2, out2, reads2, micros2 := figures()
	n := int64(looked() - first)
	f.t.Logf("a look: %d bytes to the server and %d from it, reports and other watches included, and %d ns of the server; %d looks in %v",
		(in2-in)/n, (out2-out)/n, (micros2-micros)*1000/max(1, reads2-reads), n, time.Since(begun).Round(time.Millisecond))
	for i, m := range f.members {
		for k, look := range m.recorder.from(before[i]) {
			if look.read && k > 0 {
				f.t.Errorf("%s reads the version in force again", m.name)
				break
			}
		}
	}
	keys, err := client.Keys(ctx, "rl!{config}:*").Result()
	if err != nil {
		f.t.Fatal(err)
	}
	var stored, reports, processes int64
	for _, key := range keys {
		bytes, err := client.MemoryUsage(ctx, key).Result()
		switch {
		case err != nil: // a report that ended meanwhile
		case strings.Contains(key, ":process:"):
			reports, processes = reports+bytes, processes+1
		default:
			stored += bytes
		}
	}
	f.t.Logf("the server holds %d bytes for all versions and the history, and %d for each of %d processes", stored,
		reports/max(1, processes), processes)
}

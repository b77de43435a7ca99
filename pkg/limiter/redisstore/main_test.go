package redisstore

import (
	"flag"
	"os"
	"testing"
)

// Most tests that go on side by side wait: a Cluster takes two seconds to form, and servers hang. So
// there are more of them at once than processors, unless the command line says how many.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

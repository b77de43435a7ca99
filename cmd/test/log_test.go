package test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/cli"
)

// A log that takes long is seen to be read, also where there is no terminal.
func TestALongLogIsSeenToBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		g := &cli.Globals{Env: &cli.Env{In: strings.NewReader("xxx"), Err: &said}}
		err := readFile(g, "-", func(in io.Reader) (err error) {
			for range 3 {
				time.Sleep(6 * time.Second)
				_, err = in.Read(make([]byte, 1))
			}
			return err
		})
		if got := said.String(); got != "limitctl: reading 2 B\n" || err != nil {
			t.Errorf("it says %q, %v", got, err)
		}
	})
}

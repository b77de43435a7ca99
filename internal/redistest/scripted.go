package redistest

import (
	"fmt"
	"io"
	"testing"

	"github.com/limitctl/limitctl/internal/hostile"
)

// Scripted serves RESP on loopback until the test ends and returns its address. answer
// is given the words of each command and returns the bytes to send back. It may be called
// by several connections at once. It is a server for what no honest one does.
func Scripted(t testing.TB, answer func(words []string) string) (address string) {
	t.Helper()
	return hostile.Start(t, "", hostile.Behaviour{Answer: func(c *hostile.Client) bool {
		_, err := io.WriteString(c, answer(c.Words))
		return err == nil
	}}).Addr
}

// Bulk is a text as an answer of a scripted server.
func Bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

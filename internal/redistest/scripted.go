package redistest

import (
	"fmt"
	"io"
	"testing"

	"github.com/limitctl/limitctl/internal/hostile"
)

// Scripted serves RESP on loopback until the test ends and returns its address. answer gets the words of each
// command and returns the bytes of the answer. Several connections can call it concurrently. It simulates servers
// that break the rules.
func Scripted(t testing.TB, answer func(words []string) string) (address string) {
	t.Helper()
	return hostile.Start(t, "", hostile.Behaviour{Answer: func(c *hostile.Client) bool {
		_, err := io.WriteString(c, answer(c.Words))
		return err == nil
	}}).Addr
}

// Bulk is a text as an answer of a scripted server.
func Bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

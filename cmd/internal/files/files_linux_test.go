package files_test

import (
	"testing"

	"github.com/limitctl/limitctl/cmd/internal/files"
)

// The size that a file reports need not be its content's.
func TestTheBoundIsOnWhatTheSystemWrites(t *testing.T) {
	if data, err := files.Read("/proc/self/status", 64<<10); err != nil || len(data) == 0 {
		t.Errorf("a file of the system's: %d bytes, %v", len(data), err)
	}
	if data, err := files.Read("/proc/self/status", 10); err == nil {
		t.Errorf("with a bound of 10 bytes it read %q", data)
	}
}

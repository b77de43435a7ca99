//go:build !unix

package cost

import "time"

// processTime is unknown on this system.
func processTime() (spent time.Duration, known bool) { return 0, false }

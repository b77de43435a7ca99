//go:build !unix

package cost

import "time"

// processTime is not known here.
func processTime() (spent time.Duration, known bool) { return 0, false }

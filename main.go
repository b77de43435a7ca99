// Limitctl operates and tests rate limits kept in Redis, in a file or in memory.
package main

import (
	"os"

	"github.com/limitctl/limitctl/cmd"
)

// A release and the Makefile set it; see `limitctl version`.
var version string

func main() {
	os.Exit(cmd.Main(version, 0))
}

// Limitctl operates and tests rate limits kept in Redis, in a file or in memory.
package main

import (
	"os"

	"github.com/limitctl/limitctl/cmd"
)

// A release and the Makefile set these; see `limitctl version`. The date is that of the commit.
var version, commit, date string

func main() {
	os.Exit(cmd.Main(cmd.Build{Version: version, Commit: commit, Date: date}, 0))
}

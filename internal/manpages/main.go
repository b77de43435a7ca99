//go:build manpages

// Manpages writes the man pages of limitctl into the folder of its argument, for packages.
// Its build tag keeps `go install ./...`, by which pre-commit installs its hooks, from building it.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"

	"github.com/limitctl/limitctl/cmd"
)

func main() {
	root := cmd.Root()
	root.DisableAutoGenTag = true // packages of one commit are the same at any date
	header := &doc.GenManHeader{Title: "LIMITCTL", Section: "1", Source: "limitctl"}
	if err := doc.GenManTree(root, header, os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, "manpages:", err)
		os.Exit(1)
	}
}

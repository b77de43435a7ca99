// Site writes the documentation as a site: the Markdown pages of the repository as HTML, one page for each command, and a
// search. It works offline, also from a folder without a server: nothing comes from the network. `make site` calls it.
//
// The pages stay as they are read on a forge. docs/README.md is the table of contents: its headings are the groups of the
// navigation, and its lists have the pages in their order. A page that no list has, or a link that leads nowhere, is an error.
//
//	site [-root FOLDER] [-to FOLDER]
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", "../..", "the `FOLDER` of the repository")
	to := flag.String("to", "../../bin/site", "write to this `FOLDER`, whose content is removed before")
	flag.Parse()
	s, err := load(*root)
	if err == nil {
		err = s.write(*to)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages; open %s/index.html\n", len(s.order), *to)
}

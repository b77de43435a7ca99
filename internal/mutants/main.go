// Command mutants breaks the code in ways that a user would notice, one at a time, and checks that the test named
// with the break fails. It does not change the work tree: the go command reads the broken file through -overlay.
// The breaks are in breaks/.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := command(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func command(ctx context.Context, arguments []string) (ok bool, err error) {
	flags := flag.NewFlagSet("mutants", flag.ExitOnError)
	only := flags.String("only", "", "only the breaks whose names match this regular `expression`")
	list := flags.Bool("list", false, "name the breaks, and do nothing")
	atOnce := flags.Int("p", runtime.GOMAXPROCS(0), "how many breaks are tried at once")
	timeout := flags.Duration("timeout", 2*time.Minute, "how long the tests of one break may take")
	_ = flags.Parse(arguments) // exits by itself

	chosen, err := regexp.Compile(*only)
	if err != nil {
		return false, err
	}
	breaks, err := readBreaks(filepath.Join("internal", "mutants", "breaks"), chosen)
	if err != nil {
		return false, err
	}
	if *list {
		for _, b := range breaks {
			fmt.Printf("%s: %s\n", b.name, b.harm)
		}
		return true, nil
	}
	temp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(temp)
	t := trial{root: ".", temp: temp, atOnce: max(*atOnce, 1), timeout: *timeout, out: os.Stdout}
	return t.try(ctx, breaks)
}

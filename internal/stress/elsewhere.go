//go:build !linux

// Stress needs Linux: its mounts, its users and its /proc.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "stress: Linux only: it uses its mounts and processes; the quick tests themselves run here by make test")
	os.Exit(1)
}

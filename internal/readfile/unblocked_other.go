//go:build !unix

package readfile

// Unblocked is 0: this system has no FIFOs among its files.
const Unblocked = 0

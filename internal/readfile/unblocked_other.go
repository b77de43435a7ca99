//go:build !unix

package readfile

// Unblocked is 0: there are no FIFOs among such a system's files.
const Unblocked = 0

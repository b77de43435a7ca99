// Package limiter limits rates: it decides whether somebody may do something now, and counts what
// they did.
package limiter

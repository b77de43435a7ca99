// Package peers holds what limitctl says of the keys of other rate limiters to what these
// limiters say themselves: its tests run the libraries on a real Redis.
package peers

// Package peers compares what limitctl says about the keys of other rate limiters with what these limiters say
// themselves: its tests run the libraries on a real Redis.
package peers

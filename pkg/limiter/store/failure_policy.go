package store

import "slices"

// FailurePolicy says how requests are decided while the store is away.
type FailurePolicy uint8

const (
	// FailOnError returns the error; the caller decides.
	FailOnError FailurePolicy = iota
	// AllowOnError lets requests through unguarded ("fail open").
	AllowOnError
	// DenyOnError denies requests ("fail closed").
	DenyOnError
	// LocalOnError lets a fallback store decide, with a share of each limit ("fail soft").
	LocalOnError
)

var failurePolicies = []string{"fail", "allow", "deny", "local"}

// String returns the policy's name: "fail", "allow", "deny" or "local".
func (p FailurePolicy) String() string { return failurePolicies[p] }

// ParseFailurePolicy reads "fail", "allow", "deny" or "local".
func ParseFailurePolicy(text string) (FailurePolicy, error) {
	if i := slices.Index(failurePolicies, text); i >= 0 {
		return FailurePolicy(i), nil
	}
	return 0, Invalidf("unknown failure policy %q; it is fail, allow, deny or local", text)
}

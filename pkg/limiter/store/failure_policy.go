package store

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

// String returns the policy's name: "fail", "allow", "deny" or "local".
func (p FailurePolicy) String() string {
	switch p {
	case AllowOnError:
		return "allow"
	case DenyOnError:
		return "deny"
	case LocalOnError:
		return "local"
	default:
		return "fail"
	}
}

// ParseFailurePolicy reads "fail", "allow", "deny" or "local".
func ParseFailurePolicy(text string) (FailurePolicy, error) {
	switch text {
	case "fail":
		return FailOnError, nil
	case "allow":
		return AllowOnError, nil
	case "deny":
		return DenyOnError, nil
	case "local":
		return LocalOnError, nil
	}
	return 0, Invalidf("unknown failure policy %q; it is fail, allow, deny or local", text)
}

-- Leaky bucket: what is allowed and how the level leaks is the token bucket's
-- rule. An allowed request's delay changes no state, so the caller derives it:
-- see pkg/limiter/leaky_bucket.go.

rules[2] = rules[1]

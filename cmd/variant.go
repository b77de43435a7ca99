package cmd

import (
	"fmt"
	"maps"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/loadgen"
)

// variant is what one run of a load test or a simulation is against: limits decided
// together, or a policy.
type variant struct {
	limits []limiter.Limit
	policy *policy.Policy
	// Of a load test that makes up who asks, fixed are the attributes that are the
	// same for all, and values how many different ones there are of each other one.
	fixed  policy.Attributes
	values map[string]int
}

// describe says which limits a variant has, without overrides.
func (v *variant) describe() []describedLimit {
	if v.policy != nil {
		return describePolicy(v.policy)
	}
	var described []describedLimit
	for _, limit := range v.limits {
		limit, _ = limit.Normalize() // it was checked
		described = append(described, describedLimit{name: limit.DefaultName(), limit: limit})
	}
	return described
}

// target returns what the subjects ask, and what to call each.
func (v *variant) target(subjects int) (*loadgen.Target, func(subject uint32) string, error) {
	if v.policy == nil {
		name := func(subject uint32) string { return fmt.Sprintf("user:%d", subject) }
		target, err := loadgen.NewTarget(subjects, len(v.limits), func(subject, limit int) limiter.Request {
			return limiter.Request{Key: limiter.Key{Subject: name(uint32(subject))}, Limit: v.limits[limit]}
		})
		return target, name, err
	}
	attributes := func(subject int) policy.Attributes {
		all := policy.Attributes{}
		maps.Copy(all, v.fixed)
		for name, n := range v.values {
			all[name] = fmt.Sprintf("%s-%d", name, subject%n)
		}
		return all
	}
	var requests []limiter.Request
	last := -1
	target, err := loadgen.NewTarget(subjects, len(v.policy.Limits), func(subject, limit int) limiter.Request {
		if subject != last {
			// The attributes are those that are needed, and the values fit any.
			requests, _ = v.policy.Requests(attributes(subject), 1)
			last = subject
		}
		return requests[limit]
	})
	return target, func(subject uint32) string {
		all := attributes(int(subject))
		var words []string
		for _, name := range all.Names() {
			words = append(words, name+"="+all[name])
		}
		return strings.Join(words, " ")
	}, err
}

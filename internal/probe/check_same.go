package probe

import (
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// What came of asking in another way, as it is said before the way's name.
const (
	wasDenied = "denied as well"
	wasLetIn  = "let in"
	wasOnce   = "admitted once, and then denied,"
	wasUnsure = "not seen for certain"
)

// A way is tried up to mostTries times, and lets in if that was certain in twoTries: if the limit is another one than
// was given, something may have come back just then.
const mostTries, twoTries = 4, 2

// askOtherwise asks in each other way while a subject is denied, and in the usual way right before and after.
func (v *verification) askOtherwise(subject string) error {
	for i := range v.config.Same {
		way, outcome, certain := &v.config.Same[i], wasUnsure, 0
		for n := 0; n < mostTries && certain < twoTries && outcome != wasDenied; n++ {
			isDenied, err := v.refill(subject)
			if err != nil {
				return err
			}
			if outcome = wasUnsure; !isDenied {
				break
			}
			if outcome, err = v.try(way, subject); err != nil {
				return err
			}
			if outcome == wasLetIn {
				certain++
			}
		}
		if certain > 0 && certain < twoTries {
			outcome = wasOnce
		}
		v.tried[outcome] = append(v.tried[outcome], way.Name)
	}
	return nil
}

// try sends a request of a denied subject in another way, and then one in the usual way.
func (v *verification) try(way *Way, subject string) (outcome string, err error) {
	before := v.last(subject).Sent
	client, err := way.Open()
	if err != nil {
		return wasUnsure, nil
	}
	defer client.Close()
	asked, err := v.sendBy(client, Event{Subject: subject, way: way.Name})
	if err != nil {
		return "", err
	}
	after, err := v.send(subject)
	isUsual := func(e Event) bool { return e.way == "" && e.Outcome == endpoint.Allowed && e.Status == asked.Status }
	switch {
	case err != nil:
		return "", err
	case asked.Outcome == endpoint.Failed:
		return wasUnsure, nil
	case asked.Outcome == endpoint.Denied, !slices.ContainsFunc(v.events, isUsual): // as where there is no such path
		return wasDenied, nil
	case after.Outcome == endpoint.Denied && v.isLetIn(way.Name, &after, before):
		return wasLetIn, nil
	}
	return wasUnsure, nil
}

// isLetIn reports whether what a way admitted was certainly counted as another client's: the answers to both do not
// fit one limit, wherever its period ended.
func (v *verification) isLetIn(way string, denied *Event, before time.Time) bool {
	alone, both := v.keyOf(denied.Subject, ""), v.keyOf(denied.Subject, way)
	if f := v.audit(&v.limit, []key{alone}, nil).Finding(); f.OverAdmitted+f.UnderAdmitted > 0 {
		return false // the limit is not kept anyway
	}
	if v.audit(&v.limit, []key{both}, nil).Finding().OverAdmitted > 0 {
		return true
	}
	// The audit asks of windows that begin at unknown instants only how much can be in one. But if one began after
	// the last denial, so few requests would not have used it up.
	later := int64(0)
	for _, e := range both.events {
		if e.Sent.After(before) {
			later++
		}
	}
	return v.limit.Algorithm == store.FixedWindow && later <= v.limit.Capacity()
}

// sameClient checks that a denied client is denied in other ways, too.
func (e *proof) sameClient() Check {
	c := Check{Name: checkSameClient, Verdict: Unknown, Expected: "who is denied is denied in other ways, too",
		Seen: "no request was denied"}
	if len(e.config.Same) == 0 {
		c.Moot, c.Seen = true, "there is no other way to ask as the same client"
	}
	// The last one counts most.
	for _, outcome := range []string{wasDenied, wasUnsure, wasOnce, wasLetIn} {
		if len(e.tried[outcome]) == 0 {
			continue
		}
		c.Seen, c.Verdict = outcome+" "+strings.Join(e.tried[outcome], ", "), Unknown
		switch c.Grave = outcome == wasOnce; outcome {
		case wasDenied:
			c.Verdict = Pass
		case wasLetIn:
			if c.Verdict = Fail; !e.isKept() {
				c.Verdict, c.Seen = Unknown, c.Seen+", if not because the limit is not kept"
			}
		}
	}
	return c
}

package layouts

import "testing"

// TestRecordedBoulder holds what we say of buckets to what boulder said, to the ns: its clock stood
// still at whole µs. An allowed check has taken its unit off what remains, and added it to the reset.
func TestRecordedBoulder(t *testing.T) {
	eachRecorded(t, "boulder", func(t *testing.T, s *recordedState) {
		storeKey, limit := s.key("", ""), s.limit(t)
		if storeKey == "" {
			if *s.Peek.Remaining != limit.Burst-1 || !*s.Take.Allowed {
				t.Fatalf("there is no key, and boulder says %+v", s.Peek)
			}
			return
		}
		if layout, err := s.claimed(t, storeKey); layout != "boulder" {
			t.Errorf("%s is claimed by %q: %v", storeKey, layout, err)
		}
		entry := s.entry(t, boulder{}, storeKey, limit, s.Peek.Now)
		if key, usual := (boulder{}).Match(storeKey, false); !usual || key.Name != "boulder/"+s.Case {
			t.Errorf("%s is of %q", storeKey, key.Name)
		}
		remaining, reset, retry := entry.Remaining, int64(entry.ResetAfter), int64(entry.RetryAfter)
		if entry.Allowed {
			remaining, reset = remaining-1, reset+wholeInterval(&limit)
			retry = max(0, 2*wholeInterval(&limit)-(wholeInterval(&limit)*limit.Burst-int64(entry.ResetAfter)))
		}
		if entry.Allowed != *s.Peek.Allowed || remaining != *s.Peek.Remaining || reset != s.Peek.ResetNs || retry != s.Peek.RetryNs {
			t.Errorf("%+v, and boulder says %+v", entry, s.Peek)
		}
		taken := s.entry(t, boulder{}, storeKey, limit, s.Take.Now)
		if taken.Allowed != *s.Take.Allowed {
			t.Errorf("%+v, and boulder allows: %v", taken, *s.Take.Allowed)
		}
	})
}

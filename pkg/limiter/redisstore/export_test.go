package redisstore

import "time"

// SetAhead lets s believe that the server's clock is ahead of ours.
func (s *Store) SetAhead(d time.Duration) { s.ahead.Store(d.Milliseconds()) }

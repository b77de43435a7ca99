package filestore

// Waiting returns how many calls wait for the writer.
func (s *Store) Waiting() int {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return s.queue.jobs.Len()
}

// Path returns the path of the file.
func (s *Store) Path() string { return s.path }

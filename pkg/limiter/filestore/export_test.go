package filestore

// Waiting returns how many takes are under way while the file is locked: one has the turn.
func (s *Store) Waiting() int {
	s.takes.mu.Lock()
	defer s.takes.mu.Unlock()
	return len(s.takes.waiting) + len(s.writer.turn)
}

// Path returns the path of the file.
func (s *Store) Path() string { return s.path }

// NoDisk has the stores of this process not wait for the disk.
func NoDisk() { synchronous = "off" }

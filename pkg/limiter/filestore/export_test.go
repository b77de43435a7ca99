package filestore

// IsWriting reports whether a call has the turn to write.
func (s *Store) IsWriting() bool { return len(s.writer.turn) > 0 }

// Path returns the path of the file.
func (s *Store) Path() string { return s.path }

// NoDisk has the stores of this process not wait for the disk.
func NoDisk() { synchronous = "off" }

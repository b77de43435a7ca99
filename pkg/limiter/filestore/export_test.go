package filestore

// Turn holds a token while a call is at work.
func (s *Store) Turn() chan struct{} { return s.turn }

// Path returns the path of the file.
func (s *Store) Path() string { return s.path }

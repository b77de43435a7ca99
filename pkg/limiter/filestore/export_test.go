package filestore

import "context"

// Write has the writer call do together with the calls of others.
func (s *Store) Write(ctx context.Context, do func() error) error {
	return s.write(ctx, &job{creates: true, do: func(*batch) error { return do() }})
}

// Waiting returns how many calls wait for the writer.
func (s *Store) Waiting() int {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return s.queue.jobs.Len()
}

// Path returns the path of the file.
func (s *Store) Path() string { return s.path }

// HasWriter reports whether a goroutine of the store's is there.
func (s *Store) HasWriter() bool {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	return s.queue.writing
}

// NoDisk has the stores of this process not wait for the disk.
func NoDisk() { synchronous = "off" }

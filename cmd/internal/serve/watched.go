package serve

import (
	"crypto/sha256"
	"fmt"
	"sync/atomic"
)

// watched are files whose contents are used together.
type watched struct {
	read  func(path string) ([]byte, error)
	paths []string
	// seen is the content of the files at the last use, or the last try.
	seen [sha256.Size]byte
	// failed is why the last use failed; nil if it did not.
	failed atomic.Pointer[string]
}

// refresh calls use with the contents of the files, if they have changed. It returns the same cause of a failure
// only once.
func (w *watched) refresh(use func(texts [][]byte) error) (changed bool, err error) {
	texts, sum, err := w.contents()
	if err == nil {
		if sum == w.seen {
			return false, nil // the earlier failure still holds
		}
		w.seen = sum
		err = use(texts)
	}
	if err == nil {
		w.failed.Store(nil)
		return true, nil
	}
	w.seen = [sha256.Size]byte{} // the old contents can come back
	text := err.Error()
	if text == w.stale() {
		return false, nil
	}
	w.failed.Store(&text)
	return false, err
}

// stale returns why the last use failed, or "".
func (w *watched) stale() string {
	if text := w.failed.Load(); text != nil {
		return *text
	}
	return ""
}

func (w *watched) contents() (texts [][]byte, sum [sha256.Size]byte, err error) {
	hash := sha256.New()
	for _, path := range w.paths {
		text, err := w.read(path)
		if err != nil {
			return nil, sum, err
		}
		fmt.Fprintf(hash, "%d ", len(text))
		hash.Write(text)
		texts = append(texts, text)
	}
	return texts, [sha256.Size]byte(hash.Sum(nil)), nil
}

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
	// seen is what the files held when they were last used, or were to be.
	seen [sha256.Size]byte
	// failed is why the files could not be used the last time, nil if they could.
	failed atomic.Pointer[string]
}

// refresh calls use with what the files hold, if that is not what it was. The same cause why
// that cannot be done is returned once.
func (w *watched) refresh(use func(texts [][]byte) error) (changed bool, err error) {
	texts, sum, err := w.contents()
	if err == nil {
		if sum == w.seen {
			return false, nil // and what was wrong with it still is
		}
		w.seen = sum
		err = use(texts)
	}
	if err == nil {
		w.failed.Store(nil)
		return true, nil
	}
	w.seen = [sha256.Size]byte{} // the files may come back as they were
	text := err.Error()
	if text == w.stale() {
		return false, nil
	}
	w.failed.Store(&text)
	return false, err
}

// stale is why the files could not be used the last time, or empty.
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

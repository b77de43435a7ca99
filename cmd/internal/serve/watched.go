package serve

import (
	"crypto/sha256"
	"fmt"
)

// watched are files whose contents are used together.
type watched struct {
	read  func(path string) ([]byte, error)
	paths []string
	// seen is what the files held when they were last looked at, and failed why they could not
	// be read then.
	seen   [sha256.Size]byte
	failed string
}

// changed returns what the files hold if that is not what it was, and nil otherwise. A cause
// why they cannot be read is returned once.
func (w *watched) changed() (texts [][]byte, err error) {
	sum := sha256.New()
	for _, path := range w.paths {
		text, err := w.read(path)
		if err != nil {
			if err.Error() == w.failed {
				return nil, nil
			}
			w.failed = err.Error()
			return nil, err
		}
		fmt.Fprintf(sum, "%d ", len(text))
		sum.Write(text)
		texts = append(texts, text)
	}
	w.failed = ""
	if seen := [sha256.Size]byte(sum.Sum(nil)); seen != w.seen {
		w.seen = seen
		return texts, nil
	}
	return nil, nil
}

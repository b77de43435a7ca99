package textcut

import (
	"encoding/base32"
	"hash/fnv"
	"slices"
	"strconv"
)

// tagAll ends those rows in characters of a hash, as many as it takes for all to differ. If
// no number of them does, they are numbered.
func tagAll(rows []row, cut []string, which []int, width int) {
	tag := func(i int, with string) {
		r := &rows[i]
		with = "~" + with
		room := max(width-len(with), 1)
		cut[i] = r.text[:r.offset(r.upTo(room-1))] + ellipsis + with
	}
	for length := 4; length <= width-2; length++ {
		for _, i := range which {
			tag(i, hash(rows[i].text)[:min(length, hashLength)])
		}
		if len(collisions(rows, cut)) == 0 {
			return
		}
		if length == hashLength {
			break
		}
	}
	var texts []string
	for _, i := range which {
		texts = append(texts, rows[i].text)
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	for _, i := range which {
		number, _ := slices.BinarySearch(texts, rows[i].text)
		tag(i, strconv.Itoa(number+1))
	}
}

// hashLength is how many characters a hash has.
const hashLength = 12

// hash returns a hash of a text, the same on every machine.
func hash(text string) string {
	h := fnv.New64a()
	h.Write([]byte(text))
	const digits = "abcdefghijkmnpqrstuvwxyz23456789"
	return base32.NewEncoding(digits).WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))[:hashLength]
}

package readfile

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
)

// Gunzip returns the content of all that gzip packed one after the other. It ignores zero bytes after it, with which tapes and block
// devices fill their last block. Errors are those of package gzip.
func Gunzip(packed *bufio.Reader) (io.Reader, error) {
	member, err := gzip.NewReader(packed)
	if err != nil {
		return nil, err
	}
	member.Multistream(false)
	return &gunzipper{packed, member}, nil
}

type gunzipper struct {
	packed *bufio.Reader
	member *gzip.Reader
}

// Read implements io.Reader.
func (g *gunzipper) Read(p []byte) (n int, err error) {
	for n == 0 && err == nil && len(p) > 0 { // a member can be empty
		if n, err = g.member.Read(p); errors.Is(err, io.EOF) {
			err = g.nextMember()
		}
	}
	return n, err
}

// nextMember returns io.EOF if there is none.
func (g *gunzipper) nextMember() error {
	for {
		b, err := g.packed.ReadByte()
		if err != nil {
			return err
		}
		if b == 0 {
			continue
		}
		if err = g.packed.UnreadByte(); err == nil {
			err = g.member.Reset(g.packed)
		}
		g.member.Multistream(false)
		return err
	}
}

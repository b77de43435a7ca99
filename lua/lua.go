// Package lua holds the scripts that decide limits inside Redis, each algorithm in the shape of its Go twin in
// pkg/limiter/store.
//
// A script is some files, one after the other. One of an algorithm is frame.lua with the algorithm in its middle;
// many.lua and decide.lua are other ends of the frame, after the algorithms that they need.
package lua

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

//go:embed *.lua
var files embed.FS

const (
	// HeadSize is how many bytes of a value are read at first, here and in Go: every record whole except a large log.
	HeadSize = 512
	// ExportBytes is about how many bytes of records one exchange with a server carries.
	// A record that is larger by itself comes alone.
	ExportBytes = 4 << 20
)

// A Script is put together when it is first called.
type Script struct {
	read func() (source string, sha any)
}

// Source returns the text of the script.
func (s *Script) Source() string {
	source, _ := s.read()
	return source
}

// SHA returns the name that a server caches the script by, a string as a word of a command.
func (s *Script) SHA() any {
	_, sha := s.read()
	return sha
}

// The scripts that do not decide.
var (
	Delete        = script("held.lua", "delete.lua")
	Adjust        = decides([]string{"held.lua", "adjust.lua"}, store.Kinds()...)
	Import        = script("held.lua", "import.lua")
	AddDenials    = script("denials.lua")
	GetRecords    = script("table_get.lua")
	ChangeRecords = script("table_change.lua")
)

// OfKind are the scripts that decide requests of one kind.
type OfKind struct {
	// One decides one take or peek in the usual case, and fails with COMPLETE, or WRONGTYPE, in any other. Many decides
	// many takes and peeks independently of each other. They are nil for a kind that no short script decides.
	One, Many *Script
	// Any decides any requests. It fails with COMPLETE where a key has a record of another kind.
	Any *Script
}

// The scripts that decide, by kind, and those of several kinds.
var (
	ofKinds = scriptsOfKinds()

	numbers = slices.DeleteFunc(store.Kinds(), func(k store.Kind) bool { return !k.DecidesShort() })

	// DecideManyNumbers is Many of [OfKind] for all kinds whose state is two numbers.
	DecideManyNumbers = decidesMany(numbers...)
	// DecideNumbers decides any requests for kinds whose state is two numbers. It fails as Any of [OfKind] does.
	DecideNumbers = decides([]string{"decide.lua"}, numbers...)
	// DecideAny decides any requests.
	DecideAny = decides([]string{"decide.lua"}, store.Kinds()...)
)

func scriptsOfKinds() map[store.Kind]OfKind {
	scripts := map[store.Kind]OfKind{}
	for _, kind := range store.Kinds() {
		if kind.RecordsOf() != kind {
			continue
		}
		of := OfKind{Any: decides([]string{"decide.lua"}, kind)}
		if kind.DecidesShort() {
			of.One, of.Many = decidesOne(kind), decidesMany(kind)
		}
		scripts[kind] = of
	}
	return scripts
}

// Of returns the scripts of a kind.
func Of(kind store.Kind) OfKind { return ofKinds[kind.RecordsOf()] }

// All returns every script that a server may be asked to run.
func All() []*Script {
	all := []*Script{Delete, Adjust, Import, AddDenials, GetRecords, ChangeRecords, DecideNumbers, DecideAny,
		DecideManyNumbers}
	for _, of := range ofKinds {
		all = append(all, of.One, of.Many, of.Any)
	}
	return slices.DeleteFunc(all, func(s *Script) bool { return s == nil })
}

// script returns the script of files.
func script(names ...string) *Script {
	return newScript(func() string { return text(names...) })
}

func newScript(put func() string) *Script {
	return &Script{sync.OnceValues(func() (string, any) {
		source := put()
		sum := sha1.Sum([]byte(source)) // the name that EVALSHA knows a script by
		return source, hex.EncodeToString(sum[:])
	})}
}

// decidesOne returns the frame with an algorithm: the functions and numbers of its file without the table, which would
// be made anew on each call.
func decidesOne(kind store.Kind) *Script {
	return newScript(func() string {
		begin, end := frame()
		functions, _, _ := strings.Cut(text(fileOf(kind)), "\nrules[")
		return begin + functions + "\n" + end
	})
}

func decidesMany(kinds ...store.Kind) *Script {
	return newScript(func() string {
		begin, _ := frame()
		return begin + text("rules.lua") + algorithms(kinds) + text("many.lua")
	})
}

// decides returns the script of files that work on the states of those kinds.
func decides(names []string, kinds ...store.Kind) *Script {
	return newScript(func() string {
		begin, _ := frame()
		states := ""
		if slices.ContainsFunc(kinds, func(k store.Kind) bool { return k.RecordSize() > 0 }) {
			states += text("numbers.lua")
		}
		if slices.ContainsFunc(kinds, func(k store.Kind) bool { return k.RecordSize() == 0 }) {
			states += text("ring.lua")
		}
		return begin + text("rules.lua") + states + algorithms(kinds) + text("states.lua") + text(names...)
	})
}

// frame returns what comes before and after the algorithm in frame.lua.
func frame() (begin, end string) {
	begin, end, _ = strings.Cut(text("frame.lua"), "-- ALGORITHM\n")
	return begin, end
}

// algorithms returns the files of kinds.
func algorithms(kinds []store.Kind) string {
	var names []string
	for _, kind := range kinds {
		if name := fileOf(kind); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return text(names...)
}

func fileOf(kind store.Kind) string {
	return strings.ReplaceAll(kind.RecordsOf().String(), "-", "_") + ".lua"
}

// text returns files, one after the other.
func text(names ...string) string {
	var all strings.Builder
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // the file is embedded above
		}
		all.Write(text)
	}
	return all.String()
}

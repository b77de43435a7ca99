// Package lua holds the scripts that decide limits inside Redis, each algorithm
// in the shape of its Go twin in pkg/limiter/store, and puts them together.
package lua

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/limitctl/limitctl/internal/denialtable"
	"github.com/limitctl/limitctl/internal/overridetable"
	"github.com/limitctl/limitctl/internal/recordformat"
	"github.com/limitctl/limitctl/internal/texts"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

//go:embed *.lua
var files embed.FS

const (
	// HeadSize is how many bytes of a value are read at first, here and in Go: every record
	// whole except a large log.
	HeadSize = 512
	// ExportBytes is about how many bytes of records one answer of the export script has.
	// A record that is larger by itself comes alone.
	ExportBytes = 4 << 20
)

// DecideOne returns the script that decides one take or peek of that kind in the
// usual case, and fails with COMPLETE in any other. It is "" for a kind that no short script
// decides.
func DecideOne(kind store.Kind) string {
	if !kind.DecidesShort() {
		return ""
	}
	return fill(text("arithmetic.lua") + text("record.lua") + functions(ruleFile(kind)) + text("decide_one.lua"))
}

// Decide returns the script that decides any requests of those kinds. It fails with
// COMPLETE where a key has a record of another one.
func Decide(kinds ...store.Kind) string {
	return decideBy("decide.lua", kinds)
}

// DecideCharging returns the script that decides what [store.IsCharging] of requests of those
// kinds. It fails with COMPLETE as [Decide] does.
func DecideCharging(kinds ...store.Kind) string { return decideBy("decide_charging.lua", kinds) }

// decideBy returns the script of a file that works on the states of those kinds, and needs more
// files besides.
func decideBy(file string, kinds []store.Kind, more ...string) string {
	names := []string{"arithmetic.lua", "record.lua", "expiry.lua", "rules.lua"}
	for _, kind := range kinds {
		state := "numbers.lua"
		if kind.RecordSize() == 0 {
			state = "ring.lua"
		}
		for _, name := range []string{state, ruleFile(kind)} {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return join(append(append(names, "states.lua"), append(more, file)...)...)
}

// DecideAny returns the complete script, for requests and records of all kinds.
func DecideAny() string { return Decide(store.Kinds()...) }

// DecideNumbers returns the script for all kinds whose state is two numbers.
func DecideNumbers() string {
	return Decide(Numbers()...)
}

// DecideMany returns the script that decides many takes and peeks of those kinds, whose
// states are two numbers, independently of each other.
func DecideMany(kinds ...store.Kind) string {
	names := []string{"arithmetic.lua", "record.lua", "rules.lua"}
	for _, kind := range kinds {
		if name := ruleFile(kind); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return join(append(names, "decide_many.lua")...)
}

// Numbers returns the kinds whose state is two numbers, and that the short scripts decide.
func Numbers() []store.Kind {
	return slices.DeleteFunc(store.Kinds(), func(k store.Kind) bool { return !k.DecidesShort() })
}

// A Name names a script that does not decide requests.
type Name string

// The scripts that do not decide. Those of members change the keys of other limiters.
const (
	Delete         Name = "delete.lua"
	Adjust         Name = "adjust.lua"
	Export         Name = "export.lua"
	Import         Name = "import.lua"
	DeleteMembers  Name = "members_delete.lua"
	ImportMembers  Name = "members_import.lua"
	AddDenials     Name = "denials.lua"
	SetOverride    Name = "override_set.lua"
	RevokeOverride Name = "override_revoke.lua"
	ListOverrides  Name = "override_list.lua"
	PublishConfig  Name = "config_publish.lua"
	ConfigReports  Name = "config_reports.lua"
)

// needs are the files that a script has before its own.
var needs = map[Name][]string{
	Delete:         {"holds.lua", "kept.lua"},
	Adjust:         {"holds.lua", "kept.lua"},
	Export:         {"holds.lua"},
	Import:         {"holds.lua"},
	DeleteMembers:  {"holds.lua", "kept.lua", "members_held.lua"},
	ImportMembers:  {"holds.lua", "members_held.lua"},
	AddDenials:     {},
	SetOverride:    {"overrides_index.lua"},
	RevokeOverride: {"overrides_index.lua"},
	ListOverrides:  {"overrides_index.lua"},
	PublishConfig:  {},
	ConfigReports:  {},
}

// Named returns the script of a name.
func Named(name Name) string {
	if name == Adjust { // the one that works on states
		return decideBy(string(name), store.Kinds(), needs[name]...)
	}
	return join(append(slices.Clone(needs[name]), string(name))...)
}

// The parts of what a server holds of overrides; see overrides_index.lua.
const (
	OverridesMagic = "RI\x01"
	OverridesHead  = len(OverridesMagic) + 6 + overridetable.VersionSize
	OverridesEntry = overridetable.IDSize + 6
	OverridesSize  = OverridesHead + admin.MaxOverrides*OverridesEntry

	OverrideMagic = "RO\x01"
	OverrideHead  = len(OverrideMagic) + 6 + 6
	OverrideSize  = OverrideHead + overridetable.MaxSize
)

// All returns every script that a server may be asked to run.
func All() []string { return slices.Clone(all()) }

var all = sync.OnceValue(func() []string {
	var all []string
	for _, kind := range store.Kinds() {
		switch {
		case kind.RecordsOf() != kind:
		case !kind.DecidesShort():
			all = append(all, Decide(kind), DecideCharging(kind))
		default:
			all = append(all, DecideOne(kind), DecideMany(kind), DecideCharging(kind))
		}
	}
	all = append(all, DecideNumbers(), DecideMany(Numbers()...), DecideAny(), DecideCharging(store.Kinds()...))
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		all = append(all, Named(name))
	}
	return all
})

// ruleFile returns the file with the rule of a kind.
func ruleFile(kind store.Kind) string {
	return strings.ReplaceAll(kind.RecordsOf().String(), "-", "_") + ".lua"
}

// functions returns what the file of a rule has besides its table: the functions and
// numbers that decide one request. A table made anew on each call costs more.
func functions(file string) string {
	functions, _, found := strings.Cut(text(file), "\nrules[")
	if !found {
		panic(file + " has no table")
	}
	return functions + "\n"
}

// join puts a script together.
func join(names ...string) string {
	var script strings.Builder
	for _, name := range names {
		script.WriteString(text(name))
	}
	return fill(script.String())
}

// text returns a file.
func text(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // the file is embedded above
	}
	return string(text)
}

// fill puts numbers in the place of the words in capitals that have one.
func fill(script string) string {
	numbers := numbers()
	return capitals().ReplaceAllStringFunc(script, func(word string) string {
		if number, ok := numbers[word]; ok {
			return number
		}
		return word
	})
}

var capitals = texts.Regexp(`[A-Z]+(_[A-Z]+)+`)

// luaText writes a text of ASCII as Lua does.
func luaText(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c < ' ' {
			fmt.Fprintf(&b, `\%03d`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return "'" + b.String() + "'"
}

// numbers returns what the scripts call numbers that Go says. Of each kind
// these are TOKEN_BUCKET, its number, and TOKEN_BUCKET_MAGIC, _SIZE and _MAX_COUNT.
var numbers = sync.OnceValue(func() map[string]string {
	kinds := store.Kinds()
	numbers := map[string]string{
		"RECORD_MAGIC":        magic(recordformat.Version),
		"RECORD_VERSION":      strconv.Itoa(recordformat.Version),
		"RECORD_HEADER_SIZE":  strconv.Itoa(recordformat.HeaderSize),
		"MAX_RECORD_SIZE":     strconv.Itoa(store.MaxRecordSize),
		"RECORD_HEADER_END":   strconv.Itoa(recordformat.HeaderSize - 1),
		"HEAD_SIZE":           strconv.Itoa(HeadSize),
		"HEAD_END":            strconv.Itoa(HeadSize - 1),
		"EXPORT_BYTES":        strconv.Itoa(ExportBytes),
		"LAST_VERSION":        strconv.Itoa(int(lastVersion(kinds))),
		"FIRST_KIND":          strconv.Itoa(int(kinds[0])),
		"LAST_KIND":           strconv.Itoa(int(kinds[len(kinds)-1])),
		"DENIALS_KEPT":        strconv.Itoa(denialtable.Minutes.Kept),
		"DENIALS_HELD":        strconv.Itoa(denialtable.Minutes.Held()),
		"COARSE_DENIALS_KEPT": strconv.Itoa(denialtable.Coarse.Kept),
		"COARSE_DENIALS_HELD": strconv.Itoa(denialtable.Coarse.Held()),
		"DENIAL_MINUTES":      strconv.FormatInt(denialtable.Minutes.History.Milliseconds(), 10),
		"DENIAL_HISTORY":      strconv.FormatInt(denialtable.Coarse.History.Milliseconds(), 10),
		"DENIAL_PAUSE":        strconv.FormatInt(admin.DenialPause.Milliseconds(), 10),
		"LET_THROUGH_KEPT":    strconv.Itoa(admin.LetThroughKept),
		"OVERRIDES_MAGIC":     luaText(OverridesMagic),
		"OVERRIDES_HEAD":      strconv.Itoa(OverridesHead),
		"OVERRIDES_SIZE":      strconv.Itoa(OverridesSize),
		"OVERRIDE_MAGIC":      luaText(OverrideMagic),
		"OVERRIDE_HEAD":       strconv.Itoa(OverrideHead),
		"OVERRIDE_SIZE":       strconv.Itoa(OverrideSize),
		"MAX_OVERRIDES":       strconv.Itoa(admin.MaxOverrides),
		"MAX_CONFIG_HEAD":     strconv.Itoa(admin.MaxConfigHead),
		"MAX_CONFIG_REPORT":   strconv.Itoa(admin.MaxConfigReport),
		"MAX_SLICES":          strconv.Itoa(store.MaxSlices),
		"MAX_COUNT":           strconv.Itoa(store.MaxCount),
		"MIN_PERIOD":          strconv.FormatInt(store.MinPeriod.Microseconds(), 10),
		"MAX_WINDOW":          strconv.FormatInt(store.MaxWindow.Microseconds(), 10),
		"MAX_PERIOD":          strconv.FormatInt(store.MaxPeriod.Microseconds(), 10),
		"MAX_INSTANT":         strconv.FormatInt(store.MaxInstant, 10),
		"MAX_DRAIN":           strconv.FormatInt(store.MaxDrain.Microseconds(), 10),
		"OVERFULL_VERSION":    strconv.Itoa(recordformat.OverfullVersion),
		"OVERFULL_MAGIC":      magic(recordformat.OverfullVersion),
		"TOKEN_MAGIC":         fmt.Sprintf("0x%x%02x", recordformat.TokenMagic, recordformat.TokenVersion),
		"TOKEN_VERSION":       strconv.Itoa(recordformat.TokenVersion),
		"TOKEN_HEADER_SIZE":   strconv.Itoa(recordformat.TokenHeaderSize),
		"TOKEN_PART_SIZE":     strconv.Itoa(recordformat.TokenChargeSize),
		"TOKEN_END":           strconv.Itoa(recordformat.TokenHeaderSize + store.MaxRequests*recordformat.TokenChargeSize),
	}
	for _, kind := range kinds {
		name := strings.ToUpper(strings.ReplaceAll(kind.String(), "-", "_"))
		numbers[name] = strconv.Itoa(int(kind))
		numbers[name+"_MAGIC"] = magic(kind.RecordVersion())
		numbers[name+"_SIZE"] = strconv.Itoa(kind.RecordSize())
		numbers[name+"_MAX_COUNT"] = strconv.FormatInt(kind.Algorithm().MaxCount(), 10)
	}
	return numbers
})

// lastVersion returns the greatest version of records.
func lastVersion(kinds []store.Kind) (last uint8) {
	last = recordformat.OverfullVersion
	for _, kind := range kinds {
		last = max(last, kind.RecordVersion())
	}
	return last
}

// magic returns the first three bytes of records of a version as one number.
func magic(version uint8) string { return fmt.Sprintf("0x%x%02x", recordformat.Magic, version) }

package lua_test

import (
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/recordformat"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// The scripts write the numbers of Go as they are. Who changes one changes both.
func TestNumbersOfTheScripts(t *testing.T) {
	for number, same := range map[string]bool{
		"1e9":                    store.MaxCount == 1e9,
		"1e6":                    store.MaxSlidingLogCount == 1e6,
		"2e9":                    2*store.MaxCount == 2e9,
		"3600":                   store.MaxSlices == 3600,
		"1000":                   store.MinPeriod.Microseconds() == 1000,
		"366 * 86400e6":          store.MaxPeriod == 366*24*time.Hour,
		"367 * 86400e6":          store.MaxWindow == 367*24*time.Hour,
		"36600 * 86400e6":        store.MaxDrain == 36600*24*time.Hour,
		"2 ^ 52":                 store.MaxInstant == 1<<52-1,
		"12500057":               store.MaxRecordSize == 12500057,
		"511":                    lua.HeadSize == 512,
		"4194304":                lua.ExportBytes == 4194304,
		"0x524c01":               recordformat.Magic == "RL" && recordformat.Version == 1,
		"0x524c03":               recordformat.OverfullVersion == 3,
		"0x525401":               recordformat.TokenMagic == "RT" && recordformat.TokenVersion == 1,
		"36 + i * 19":            recordformat.TokenHeaderSize == 36 && recordformat.TokenChargeSize == 19,
		"1252":                   recordformat.TokenHeaderSize+store.MaxRequests*recordformat.TokenChargeSize == 1252,
		`^RL[\1-\4][\1-\7]`:      len(store.Kinds()) == 7 && store.Kind(7).RecordVersion() == 4,
		"0x524c02":               store.Kind(6).RecordVersion() == 2,
		"0x524c04":               store.Kind(7).RecordVersion() == 4,
		"'I4I7', 37":             store.Kind(1).RecordSize() == 37 && store.Kind(2).RecordsOf() == 1,
		"'I4', 30":               store.Kind(3).RecordSize() == 30,
		"'I4I4', 34":             store.Kind(5).RecordSize() == 34,
		"size = 30":              store.Kind(7).RecordSize() == 30,
		"size < 26":              recordformat.HeaderSize == 26,
		"n == 1 and 1000 or 200": admin.FineSteps.Kept == 1000 && admin.CoarseSteps.Kept == 200,
		"t.kept * 1.5":           admin.FineSteps.Held() == 1500 && admin.CoarseSteps.Held() == 300,
		"300000":                 admin.DenialPause == 5*time.Minute,
	} {
		used := false
		for _, script := range lua.All() {
			used = used || strings.Contains(script.Source(), number)
		}
		if !same || !used {
			t.Errorf("%s: the same in Go: %v, used: %v", number, same, used)
		}
	}
}

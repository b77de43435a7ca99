package layouts

import (
	"strconv"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Description is what a value looks like. It is zero for a value that looks like no limiter's.
type Description struct {
	// Layout is the name of the layout.
	Layout string
	// Text is what the value is, such as "a Traefik bucket".
	Text string
	// ByValue: only the value and its expiry are the layout's, and the key is not. Then
	// it looks like the layout's, and need not be.
	ByValue bool
}

// Describe says which layout a store key with a value looks like at now, if an operator has named
// none. One of several members identifies its limit only if it is certain.
func Describe(value *Value, now store.Instant) Description { return describe(All(), value, now) }

// describeNamed is [Describe] by the layouts that the program has asked for: all or, if its layouts are its own, none.
func describeNamed(value *Value, now store.Instant) Description {
	if every := named.Load(); every != nil {
		return describe((*every)(), value, now)
	}
	return Description{}
}

func describe(layouts []Layout, value *Value, now store.Instant) Description {
	if IsOwn(value) {
		return Description{}
	}
	var described Description
	for _, layout := range layouts {
		info := layout.Info()
		is := Description{Layout: info.Name, Text: info.called()}
		if !isCertainly(layout, value.StoreKey, value, now) {
			is.ByValue = true
			if !tells(value) || !isCertainly(layout, info.Example, value, now) {
				continue
			}
		}
		switch {
		case described.Layout == "" || described.ByValue && !is.ByValue:
			described = is
		case described.ByValue == is.ByValue: // of several it is none
			described.Text = ""
		}
	}
	if described.Text == "" {
		return Description{}
	}
	return described
}

// isCertainly reports whether a layout is certain of a value as if it were under a store key.
func isCertainly(layout Layout, storeKey string, value *Value, now store.Instant) bool {
	key, ok := layout.Match(storeKey, false)
	if !ok {
		return false
	}
	found := &Found{StoreKey: storeKey, Key: key, Now: now}
	for _, other := range layout.Together(storeKey, store.Limit{}, now) {
		held := Value{StoreKey: other, Type: NoValue}
		if other == storeKey {
			held = *value
			held.StoreKey = storeKey
		}
		found.Values = append(found.Values, held)
	}
	reading, err := decode(layout, found)
	return err == nil && reading.Certain && len(reading.Entries) > 0
}

// tells reports whether a value can identify its limiter without its key: a value of several
// parts can, a number or a list cannot.
func tells(value *Value) bool {
	if value.Type != StringValue {
		return value.Type == HashValue
	}
	_, err := strconv.ParseInt(string(value.Text), 10, 64)
	return err != nil
}

// called is what a value of the layout is called.
func (info *Info) called() string {
	if info.Called == "" {
		return "a limit of " + info.Name
	}
	return info.Called
}

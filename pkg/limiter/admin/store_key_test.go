package admin

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// fitsAKey checks, character by character, what the documentation of Key allows.
func fitsAKey(text string, maxLength int) bool {
	if text == "" || len(text) > maxLength || !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if r == '{' || r == '}' || r < ' ' || 0x7f <= r && r < 0xa0 {
			return false
		}
	}
	return true
}

// hashTag is the part of a key that Redis Cluster hashes: the text between the first "{" and the next "}", or the
// whole key if that is empty.
func hashTag(storeKey string) string {
	if _, after, found := strings.Cut(storeKey, "{"); found {
		if tag, _, found := strings.Cut(after, "}"); found && tag != "" {
			return tag
		}
	}
	return storeKey
}

func FuzzKey(f *testing.F) {
	f.Add("rl", "user:42", "login/ip", "user:42", "login", "rl:{user:42}:login/ip")
	f.Add("rl", "a", "b:c", "a:b", "c", "rl:{a}b}:c")
	f.Add("rl", "a}:b", "c", "a", "b}:c", "rl:{a}:b}:c")
	f.Add("a:", "a_b", "c", "a", "b_c", "a::{x}:")
	f.Add("", "", "", "\x00", "\xff", "")
	f.Add("用", "tenant:acme:user:123456", "名", "tenant:acme:user:12345\x7f", "{}", "用:{ü}:é")
	f.Fuzz(func(t *testing.T, prefix, subject, name, subject2, name2, storeKey string) {
		if (store.ValidatePrefix(prefix) == nil) != fitsAKey(prefix, store.MaxPrefixLength) {
			t.Fatalf("prefix %q: %v", prefix, store.ValidatePrefix(prefix))
		}
		if store.ValidatePrefix(prefix) != nil {
			prefix = store.DefaultPrefix
		}
		if key, ok := OwnLayout(prefix).Match(storeKey); ok && OwnLayout(prefix).StoreKey(key) != storeKey {
			t.Fatalf("%q is taken apart into %q, which makes %q", storeKey, key, OwnLayout(prefix).StoreKey(key))
		}
		var whole []store.Key // the valid keys with a name
		for _, key := range []store.Key{{Subject: subject, Name: name}, {Subject: subject2, Name: name2}} {
			err := key.Validate()
			valid := fitsAKey(key.Subject, store.MaxSubjectLength) &&
				(key.Name == "" || fitsAKey(key.Name, store.MaxNameLength))
			if valid != (err == nil) {
				t.Fatalf("%q: valid %t, but the error is %v", key, valid, err)
			}
			if err != nil && (!errors.Is(err, store.ErrInvalid) ||
				strings.ContainsFunc(err.Error(), unicode.IsControl)) {
				t.Fatalf("not one line of ErrInvalid: %q", err)
			}
			made := OwnLayout(prefix).StoreKey(key)
			got, ok := OwnLayout(prefix).Match(made)
			if want := valid && key.Name != ""; ok != want || ok && got != key {
				t.Fatalf("%q makes %q, which is taken apart into %q, %t", key, made, got, ok)
			}
			if !ok {
				continue
			}
			whole = append(whole, key)
			if tag := hashTag(made); tag != key.Subject {
				t.Fatalf("the hash tag of %q is %q", made, tag)
			}
			if _, ok := OwnLayout(prefix + "x").Match(made); ok {
				t.Fatalf("%q is taken for a key of another prefix", made)
			}
		}
		of := OwnLayout(prefix).StoreKey
		if len(whole) == 2 && (of(whole[0]) == of(whole[1])) != (whole[0] == whole[1]) {
			t.Fatalf("%q and %q share the store key %q", whole[0], whole[1], OwnLayout(prefix).StoreKey(whole[0]))
		}
	})
}

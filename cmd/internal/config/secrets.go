package config

import (
	"regexp"
	"strings"
)

// maskPasswords puts a "*" for each character of what may be a password in a line
// of a configuration file, so that a caret below it still points where it did. It
// uses no parser: a line with mistakes in it need not hold its passwords where
// they belong, and rather too much is masked.
func maskPasswords(line string) string {
	stars := func(secret string) string { return strings.Repeat("*", len([]rune(secret))) }
	begin := -1
	if at := storeField.FindStringIndex(line); at != nil {
		begin = at[1]
	} else if i := strings.Index(line, "://"); i >= 0 {
		begin = i
	}
	if begin >= 0 {
		line = line[:begin] + maskUserinfo(line[begin:], stars)
	}
	line = replaceSecret(passwordField, line, stars)
	return replaceSecret(passwordOption, line, stars)
}

// RedactURL returns a store's URL without its passwords.
func RedactURL(url string) string {
	if strings.HasPrefix(url, "file:") { // a path, whatever it looks like
		return url
	}
	hidden := func(string) string { return "xxxxx" }
	return replaceSecret(passwordOption, maskUserinfo(url, hidden), hidden)
}

// DropPasswords returns a store's URL as it is without its passwords, which then are
// to be had elsewhere.
func DropPasswords(url string) string {
	if strings.HasPrefix(url, "file:") {
		return url
	}
	nothing := func(string) string { return "" }
	dropped := replaceSecret(passwordOption, maskUserinfo(url, nothing), nothing)
	if dropped == url {
		return url
	}
	return strings.Replace(strings.Replace(dropped, "://:@", "://", 1), ":@", "@", 1)
}

var (
	storeField     = regexp.MustCompile(`\bstore["']?\s*:\s|\brediss?\b`)
	passwordField  = regexp.MustCompile(`(?i)(password["']?\s*:\s*)(.*)`)
	passwordOption = regexp.MustCompile(`(?i)(password=)([^&\s"']*)`)
)

func replaceSecret(pattern *regexp.Regexp, text string, hide func(string) string) string {
	found := pattern.FindStringSubmatchIndex(text)
	if found == nil {
		return text
	}
	begin, end := found[4], found[5]
	return text[:begin] + hide(text[begin:end]) + replaceSecret(pattern, text[end:], hide)
}

// maskUserinfo hides what is before the last "@" of a URL, from the first colon
// after its "//" on, or after its scheme where that is missing.
func maskUserinfo(url string, hide func(string) string) string {
	end := strings.LastIndexByte(url, '@')
	if end < 0 {
		return url
	}
	begin := 0
	if i := strings.Index(url[:end], "://"); i >= 0 {
		begin = i + len("://")
	}
	colon := strings.IndexByte(url[begin:end], ':')
	if colon < 0 {
		return url
	}
	begin += colon + 1
	return url[:begin] + hide(url[begin:end]) + url[end:]
}

// Package hostiletext has texts of strangers for tests: names that affect a terminal, a shell, a spreadsheet, a
// browser or a parser, or look like something else.
package hostiletext

import "strings"

// Subjects returns subjects that are all valid in a key: UTF-8, without control characters and braces, and not too
// long. They all differ, and none is a pattern of another.
func Subjects() []string {
	return []string{
		// A terminal: invisible characters, or such as move their neighbours.
		"user:\u202egnp.exe", "user:\u2066right\u2069", "user:\u200bzero", "user:\ufeffmark", "user:\u00adsoft",
		"user:\u2028line", "user:\u3164filler", "user:\u2800braille", "user:\u034fjoiner", "user:\ufe00variation",
		"user:\U000e0041tag", "user:\u00a0space", "user:\u3000wide", "user:\u061carabic", "user:\ue000private",
		"user:\ufffe", "user:\U0010ffff", `user:\x1b[31mred`, `"user:quoted"`, "user:\u05d0\u05d1", "user:e\u0301",
		"user:👨\u200d👩\u200d👧", "user:❤\ufe0f", "漢字", "😀",
		// A shell.
		"$(touch pwned)", "`touch pwned`", "user;touch pwned", "user|touch pwned", "user&touch pwned", "user'quote",
		`user"quote`, `user\backslash`, "user>pwned", "-rf", "--all", "~root", "user*", "user?", "[a-z]", "!!",
		"#comment", "$HOME", "user name", " leading", "trailing ",
		// A spreadsheet.
		"=1+1", "+1+1", "-1+1", "@SUM(A1)", "=cmd|'/C calc'!A0", " =1+1", "'=1+1", "a;=1+1", "a,=1+1", "＝1+1",
		"\u200b=1+1", "-5", "a,b", `a"b`, `"`, `a",=1+1,"b`,
		// YAML, which reads some bare words as other things.
		"?", "- a", "-", ":", "a:", "a: b", "a #b", "&a", "*a", "!t", "!!binary x", "%TAG", "@", "|", ">", "[]", "[",
		"~", "null", "true", "No", "y", ".inf", ".nan", "0x1f", "012", "1e3", "1_000", "1:30", "2026-01-01", "<<", "=",
		"---", "...", "0", "1.0", "null ", "a: &b *c",
		// A browser.
		"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "javascript:alert(1)",
		"</style><script>alert(1)</script>", "&lt;b&gt;", "]]>", "<!--", "<b onmouseover=alert(1)>b",
		// Printing and counting.
		"%s%n%d", "%!s(MISSING)", "\\n", "\\u202e", "NaN", "undefined", strings.Repeat("a", 300),
		strings.Repeat("é", 120), "a/../../etc/passwd",
	}
}

// Texts returns texts that are not subjects and can come from elsewhere: a server, a file, an environment variable.
func Texts() []string {
	return append([]string{
		"\x1b]0;PWNED\x07", "\x1b[31mred", "\x1b[2J\x1b[H", "\x1b[8mhidden\x1b[0m", "\x1bP1$r\x1b\\", "\x1b[6n",
		"\x1b[201~", "\x1b", "\x1b[", "\x9b31m", "\u009b31m", "\u0085next", "\u009d0;x\u009c", "\x00nul", "a\rb",
		"a\nlimitctl: forged", "a\tb", "a\vb", "\bback\b", "\x7fdelete", "\x07bell", "\x0e\x0f", "\xff\xfe",
		"\xc3", "\xe2\x80", "\xf0\x9f\x98", "\xed\xa0\x80", "\xc0\xaf", "a\u2028b", "{}", "{{.Title}}", "",
		"\x1b]8;;https://example.com\x07link\x1b]8;;\x07", "\x1b[?1049h", "\x1bc", "\t=1+1", "\r=1+1",
	}, Subjects()...)
}

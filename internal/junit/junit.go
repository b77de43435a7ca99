// Package junit writes test results as JUnit XML, which CI systems read and show.
package junit

import (
	"encoding/xml"
	"strconv"
	"strings"
	"time"
)

// Suite is a set of tests, such as one run.
type Suite struct {
	Name string
	// Host is the machine's name, empty if unknown, and Began when the test began, which may be zero.
	Host  string
	Began time.Time
	Took  time.Duration
	Cases []Case
}

// Case is one test. It passed if it neither failed nor was skipped.
type Case struct {
	// Name is the tested thing, and Class the group to which it belongs.
	Class, Name string
	// Failed says what is wrong, and Skipped why the result is unknown; both are empty for a test that passed.
	Failed, Skipped string
	// Said has more information for readers.
	Said string
}

type xmlSuites struct {
	XMLName  xml.Name   `xml:"testsuites"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Suites   []xmlSuite `xml:"testsuite"`
}

type xmlSuite struct {
	Name     string    `xml:"name,attr"`
	Tests    int       `xml:"tests,attr"`
	Failures int       `xml:"failures,attr"`
	Errors   int       `xml:"errors,attr"`
	Skipped  int       `xml:"skipped,attr"`
	Seconds  string    `xml:"time,attr"`
	Began    string    `xml:"timestamp,attr,omitempty"`
	Host     string    `xml:"hostname,attr,omitempty"`
	Cases    []xmlCase `xml:"testcase"`
}

type xmlCase struct {
	Class   string      `xml:"classname,attr"`
	Name    string      `xml:"name,attr"`
	Failure *xmlMessage `xml:"failure"`
	Skipped *xmlMessage `xml:"skipped"`
	Said    string      `xml:"system-out,omitempty"`
}

type xmlMessage struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// XML returns the suites as a document.
func XML(suites ...Suite) []byte {
	var all xmlSuites
	for _, s := range suites {
		one := xmlSuite{Name: clean(s.Name), Tests: len(s.Cases), Seconds: seconds(s.Took), Host: clean(s.Host)}
		if !s.Began.IsZero() {
			one.Began = s.Began.UTC().Format("2006-01-02T15:04:05")
		}
		for _, c := range s.Cases {
			written := xmlCase{Class: clean(c.Class), Name: clean(c.Name), Said: clean(c.Said)}
			switch {
			case c.Failed != "":
				one.Failures++
				written.Failure = &xmlMessage{Message: clean(c.Failed), Type: "failure", Text: clean(c.Failed)}
			case c.Skipped != "":
				one.Skipped++
				written.Skipped = &xmlMessage{Message: clean(c.Skipped)}
			}
			one.Cases = append(one.Cases, written)
		}
		all.Tests += one.Tests
		all.Failures += one.Failures
		all.Suites = append(all.Suites, one)
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil { // cannot fail for structs and texts
		panic(err)
	}
	return append(append([]byte(xml.Header), text...), '\n')
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

// clean removes what XML cannot contain, even escaped: control characters, and bytes that are not UTF-8.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0xfffe || r == 0xffff {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
}

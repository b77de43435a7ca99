package cmd

import (
	"errors"
	"strconv"
	"strings"
)

// statusList is the value of a flag that takes statuses, repeated or with commas between.
type statusList struct {
	statuses  []int
	first     *int // is the first of them
	isDefault bool // the first that is given replaces the default
}

// String implements [pflag.Value].
func (l *statusList) String() string {
	var texts []string
	for _, status := range l.statuses {
		texts = append(texts, strconv.Itoa(status))
	}
	return strings.Join(texts, ",")
}

// Set implements [pflag.Value].
func (l *statusList) Set(text string) error {
	if l.isDefault {
		l.statuses, l.isDefault = nil, false
	}
	for word := range strings.SplitSeq(text, ",") {
		status, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || status < 200 || status > 599 {
			return errors.New("write a status from 200 to 599, such as 429, or several with commas between")
		}
		l.statuses = append(l.statuses, status)
	}
	*l.first = l.statuses[0]
	return nil
}

// Type implements [pflag.Value].
func (*statusList) Type() string { return "statuses" }

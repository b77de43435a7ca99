package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// NameClients returns the arguments of a command with each address of a client as the server counts it, and says so. They are
// attributes of the policies that policies matches, or a PATTERN of subjects if it is empty. An attribute is the client if the
// configuration says so, for all of these policies. Where some differ there is an error, since another client could be meant.
// A configuration that has no such attribute says nothing. exact leaves the arguments as they are.
func (g *Globals) NameClients(exact bool, policies string, args []string) ([]string, error) {
	if exact || slices.Equal(nameEach(policies, args, defaultClient), args) { // the configuration does not matter
		return args, nil
	}
	c, err := g.Config()
	if err != nil {
		return nil, err
	}
	wanted, err := store.ParsePattern(cmp.Or(policies, "*"))
	if err != nil {
		return args, nil // who selects policies refuses it
	}
	var notes []string
	var differ error
	named := nameEach(policies, args, func(attribute, value string) string {
		client, with, without := value, "", ""
		for _, p := range c.Policies {
			if !wanted.Match(p.Name) || !hasAttribute(p, attribute) {
				continue
			}
			if is := c.HTTP.Client(p.Name, attribute, value); is != value {
				client, with = is, p.Name
			} else {
				without = p.Name
			}
		}
		if client == value {
			return value
		}
		note := output.Printable(value) + " is the client " + client
		if strings.Contains(client, "/") {
			note += " (ipv6_prefix)"
		}
		if notes = append(notes, note); without != "" {
			differ = Usagef("%s by the policy %s, and not by %s; name one policy with --policy, or write %s:%s, or --exact and the subject",
				note, with, without, attribute, client)
		}
		return client
	})
	if differ != nil {
		return nil, differ
	}
	for _, note := range notes {
		if !g.Quiet {
			g.Note("%s", note)
		}
	}
	return named, nil
}

// AttributesOrPattern returns the policies for [Globals.NameClients] of a command that takes attributes also without --policy.
func AttributesOrPattern(policies string, args []string) string {
	if attributes, err := policy.ParseAttributes(args); err == nil && len(attributes) > 0 {
		return cmp.Or(policies, "*")
	}
	return policies
}

// nameEach names the clients in attributes, or in patterns if policies is empty.
func nameEach(policies string, args []string, client func(attribute, value string) string) []string {
	named := slices.Clone(args)
	for i, arg := range args {
		if name, value, is := strings.Cut(arg, "="); policies == "" {
			named[i] = allowance.NamingClients(arg, client)
		} else if is {
			named[i] = name + "=" + client(name, value)
		}
	}
	return named
}

// defaultClient returns the client of a value with an address for a server whose configuration says nothing else.
func defaultClient(_, value string) string {
	host, _, _ := strings.Cut(value, "/")
	if client, is := (&httplimit.Clients{}).Client(host); is {
		return client
	}
	return value
}

// IsChangedByName reports whether [Globals.NameClients] changes a subject if the configuration says that it has a client.
func IsChangedByName(subject string) bool {
	return allowance.NamingClients(subject, defaultClient) != subject
}

// UnknownClient returns what to add to the note that nothing matches: the subject has an address, and no policy says whether that is
// the client. It is empty for other subjects.
func (g *Globals) UnknownClient(subjects store.Pattern) (words string) {
	c, err := g.Config()
	if err != nil {
		return ""
	}
	allowance.NamingClients(subjects.String(), func(attribute, value string) string {
		client, is := (&httplimit.Clients{}).Client(value)
		known := slices.ContainsFunc(c.Policies, func(p *policy.Policy) bool { return hasAttribute(p, attribute) })
		if words == "" && is && client != value && !known {
			words = "; by default serve counts the client " + output.Printable(value) + " as " + client
		}
		return value
	})
	return words
}

func hasAttribute(p *policy.Policy, attribute string) bool {
	known, _ := p.Attributes()
	return slices.Contains(known, attribute)
}

// IsAddress reports whether a text is an address, however it is written.
func IsAddress(text string) bool {
	_, is := (&httplimit.Clients{}).Client(text)
	return is && !strings.Contains(text, "/")
}

// Package configfile is the format of limitctl.yaml: its fields, which of its text may be shown, and the meaning of
// its policies. The parts for operators alone, contexts and layouts, are read by their users.
package configfile

import (
	"fmt"

	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

func fileObject() *yamlfile.Object {
	return &yamlfile.Object{About: "The configuration of limitctl: policies and contexts.", Fields: []yamlfile.Field{
		{Name: "prefix", About: "What the store's keys begin with; rl by default.", Schema: text},
		{Name: "local_share", About: "A fallback store's share of each limit under on_error: local, unless the policy says; 25% " +
			"by default.",
			Schema: aShare},
		{Name: "breaker", About: "When services stop asking a store that is away, and when they try again.", Schema: object("breaker")},
		{Name: "policies", About: "Policies by name: lists of limits that are decided together.", Schema: namedObjects("policy")},
		{Name: "denials", About: "Count who is denied, for limitctl denials; by default serve does, and consume does not.",
			Schema: yesOrNo},
		{Name: "http", About: "How HTTP requests are limited, for all policies.", Schema: object("http")},
		{Name: "envoy", About: "Which policies decide the descriptors of Envoy, by domain.", Schema: mapOfDescriptors},
		{Name: "layouts", About: "Which keys of other limiters have which layout and limit, for commands with --layout.",
			Schema: listOf("layout")},
		{Name: "contexts", About: "Stores by name. Not allowed in the ./limitctl.yaml of the working directory.",
			Schema: namedObjects("context")},
	}}
}

func breakerObject() *yamlfile.Object {
	unlessSaid := store.Breaker{}.WithDefaults()
	return &yamlfile.Object{About: "When services stop asking a store that is away, and when they try again.", Fields: []yamlfile.Field{
		{Name: "enabled", About: "Whether there is a breaker; true by default.", Schema: yesOrNo},
		{Name: "failures", About: fmt.Sprintf("How many failures in a row open it; %d by default.", unlessSaid.Failures),
			Schema: countTo(maxFailures)},
		{Name: "slow", About: "How long an answer may take before it is a failure; " + store.FormatPeriod(unlessSaid.Slow) + " by default.",
			Schema: aDuration},
		{Name: "pause", About: "How long nothing is asked before the first try; " + store.FormatPeriod(unlessSaid.Pause) +
			" by default. It doubles with each try that fails.", Schema: aDuration},
		{Name: "max_pause", About: "The longest pause; " + store.FormatPeriod(unlessSaid.MaxPause) + " by default.", Schema: aDuration},
	}}
}

func policyObject() *yamlfile.Object {
	return &yamlfile.Object{About: "Limits that are decided together, all or none, in the order written.", Fields: []yamlfile.Field{
		{Name: "on_error", About: "What an unreachable store means for requests under the policy; fail by default.",
			Schema: oneOf("allow", "deny", "fail", "local")},
		{Name: "local_share", About: "A fallback store's share of each limit under on_error: local; the file's local_share by default.",
			Schema: aShare},
		{Name: "hash_by", About: "The attributes that put all limits into one slot of a Redis Cluster. Every limit's by begins with them.",
			Schema: listOfNames},
		{Name: "http", About: "How the policy limits HTTP requests.", Schema: object("policy-http")},
		{Name: "limits", About: "The limits. Put those first that are most likely to deny.", Required: true, Schema: listOf("limit")},
	}}
}

func limitObject() *yamlfile.Object {
	return &yamlfile.Object{About: "One limit of a policy.", Fields: []yamlfile.Field{
		{Name: "name", About: "The limit's name, which is a part of its keys.", Required: true, Schema: aName},
		{Name: "by", About: "The attributes that together say who is limited.", Required: true, Schema: listOfNames},
		{Name: "limit", About: limitAbout, Required: true, Schema: aLimit},
		{Name: "algorithm", About: algorithmAbout, Schema: anAlgorithm},
		{Name: "burst", About: burstAbout, Schema: countTo(store.MaxCount)},
		{Name: "slices", About: slicesAbout, Schema: countTo(store.MaxSlices)},
		{Name: "cost", About: "What a call takes of the limit, if that is not what the call says for all limits: a number of units, or " +
			"the name of a field that holds it, such as tokens. In HTTP requests, bytes is Content-Length.", Schema: aCost},
		{Name: "classes", About: "How much of the limit each class of callers leaves to others: the attribute that is the class, and for " +
			"each of its values a share of what the limit allows at once. Any other value leaves the largest of them.", Schema: aClasses},
		{Name: "shadow", About: "Count and report the limit, but never deny because of it.", Schema: yesOrNo},
		{Name: "warn", About: "Warn clients and operators once this share of the limit is used, such as 80%; never by default.",
			Schema: aShare},
		{Name: "overrides", About: "Other limits for some requests; the first that matches applies.", Schema: listOf("override")},
	}}
}

func overrideObject() *yamlfile.Object {
	return &yamlfile.Object{About: "Another limit for requests with certain attributes. What it leaves out is taken from the limit.",
		Fields: []yamlfile.Field{
			{Name: "when", About: "The attributes and values that a request must have, all of them.", Required: true, Schema: mapOfTexts},
			{Name: "limit", About: limitAbout, Schema: aLimit},
			{Name: "algorithm", About: algorithmAbout, Schema: anAlgorithm},
			{Name: "burst", About: burstAbout, Schema: countTo(store.MaxCount)},
			{Name: "slices", About: slicesAbout, Schema: countTo(store.MaxSlices)},
		}}
}

// ContextObject describes a context.
func ContextObject() *yamlfile.Object {
	return &yamlfile.Object{About: "A store with a name, and what is allowed there.", Fields: []yamlfile.Field{
		{Name: "store", About: "The store's URL, as --store takes it.", Required: true, Schema: text},
		{Name: "prefix", About: "What the store's keys begin with; the prefix of the policies' file by default.", Schema: text},
		{Name: "password_file", About: "The file with the password. A relative path starts at this file's directory, ~ is the home " +
			"directory.", Schema: text},
		{Name: "password_env", About: "The environment variable with the password.", Schema: text},
		{Name: "layout", About: "The layout of another limiter, or a list of layouts, by which commands read the keys there without " +
			"--layout; auto is all of them, each recognised by itself.", Schema: textOrTexts},
		{Name: "read_only", About: "Refuse all writes.", Schema: yesOrNo},
		{Name: "protected", About: "Ask for the context's name before anything is deleted or overwritten.", Schema: yesOrNo},
	}}
}

// LayoutObject describes a layout for keys of another limiter.
func LayoutObject() *yamlfile.Object {
	return &yamlfile.Object{About: "Which keys have the layout of another limiter, and what their limit is.", Fields: []yamlfile.Field{
		{Name: "layout", About: "The layout's name, as --layout takes it.", Required: true, Schema: text},
		{Name: "keys", About: "A glob over whole keys of the store; the limiter's usual keys by default.", Schema: text},
		{Name: "limit", About: "What the keys do not tell: [ALGORITHM:]COUNT[/PERIOD][,burst=N], such as 10/1m. Without an " +
			"algorithm it is " +
			"the layout's.", Schema: textOrNumber},
	}}
}

const (
	limitAbout = "How much is allowed: [ALGORITHM:]COUNT/PERIOD[,burst=N|,slices=N|,tz=ZONE], such as 10/1m, or " +
		"fixed-window:1000000/1mo,tz=Europe/Berlin."
	algorithmAbout = "How usage is counted; token-bucket by default."
	burstAbout     = "What a bucket allows at once when it is full; the count by default."
	slicesAbout    = "How many slices a sliding-counter cuts its period into. More slices are more exact; 1 by default."
)

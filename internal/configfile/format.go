// Package configfile is the format of limitctl.yaml: which fields it has, which of its text
// may be shown, and what its policies say. Contexts are read by whoever needs them.
package configfile

import (
	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter"
)

func fileObject() *yamlfile.Object {
	return &yamlfile.Object{About: "The configuration of limitctl: policies, and contexts.", Fields: []yamlfile.Field{
		{Name: "prefix", About: "What the store's keys begin with; rl unless said.", Schema: text},
		{Name: "policies", About: "Policies by name: lists of limits that are decided together.", Schema: namedObjects("policy")},
		{Name: "contexts", About: "Stores by name. Not in a limitctl.yaml that is found in the working directory.", Schema: namedObjects("context")},
	}}
}

func policyObject() *yamlfile.Object {
	return &yamlfile.Object{About: "Limits that are decided together, all or nothing, in the order written.", Fields: []yamlfile.Field{
		{Name: "on_error", About: "What an unreachable store means for requests under the policy; fail unless said.", Schema: oneOf("allow", "deny", "fail")},
		{Name: "hash_by", About: "The attributes that put all limits into one slot of a Redis Cluster: the first of every limit's by.", Schema: listOfNames},
		{Name: "limits", About: "The limits, those most likely to deny first.", Required: true, Schema: listOf("limit")},
	}}
}

func limitObject() *yamlfile.Object {
	return &yamlfile.Object{About: "One limit of a policy.", Fields: []yamlfile.Field{
		{Name: "name", About: "The limit's name, which its keys end with.", Required: true, Schema: aName},
		{Name: "by", About: "The attributes that together are who is limited.", Required: true, Schema: listOfNames},
		{Name: "limit", About: limitAbout, Required: true, Schema: text},
		{Name: "algorithm", About: algorithmAbout, Schema: anAlgorithm},
		{Name: "burst", About: burstAbout, Schema: countTo(limiter.MaxCount)},
		{Name: "slices", About: slicesAbout, Schema: countTo(limiter.MaxSlices)},
		{Name: "shadow", About: "Count and report it, and deny nothing by it.", Schema: yesOrNo},
		{Name: "overrides", About: "Other limits for some; the first that applies counts.", Schema: listOf("override")},
	}}
}

func overrideObject() *yamlfile.Object {
	return &yamlfile.Object{About: "Another limit for requests with certain attributes. What it leaves out is as in the limit it overrides.", Fields: []yamlfile.Field{
		{Name: "when", About: "The attributes and values it applies to, all of them.", Required: true, Schema: mapOfTexts},
		{Name: "limit", About: limitAbout, Schema: text},
		{Name: "algorithm", About: algorithmAbout, Schema: anAlgorithm},
		{Name: "burst", About: burstAbout, Schema: countTo(limiter.MaxCount)},
		{Name: "slices", About: slicesAbout, Schema: countTo(limiter.MaxSlices)},
	}}
}

// ContextObject describes a context.
func ContextObject() *yamlfile.Object {
	return &yamlfile.Object{About: "A store with a name, and what may be done to it.", Fields: []yamlfile.Field{
		{Name: "store", About: "The store's URL, as --store takes it.", Required: true, Schema: text},
		{Name: "prefix", About: "What the store's keys begin with; else as the policies' file says.", Schema: text},
		{Name: "password_file", About: "The file that holds the password; a relative path is from this file's directory, ~ is the home directory.", Schema: text},
		{Name: "password_env", About: "The environment variable that holds the password.", Schema: text},
		{Name: "read_only", About: "Let nothing write.", Schema: yesOrNo},
		{Name: "protected", About: "Ask for the context's name before anything is destroyed.", Schema: yesOrNo},
	}}
}

const (
	limitAbout     = "How much is allowed: [ALGORITHM:]COUNT/PERIOD[,burst=N|,slices=N], such as 10/1m."
	algorithmAbout = "How usage is counted; token-bucket unless said."
	burstAbout     = "What a bucket allows at once when full; its count unless said."
	slicesAbout    = "How many slices a sliding-counter cuts its period into, which makes it more exact; 1 unless said."
)

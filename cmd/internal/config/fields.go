package config

// object describes a mapping of the file: what the reader accepts in it, and what
// the JSON Schema says of it.
type object struct {
	about  string
	fields []field
}

type field struct {
	name     string
	about    string
	required bool
	schema   schema
}

func (o *object) names() []string {
	names := make([]string, len(o.fields))
	for i, f := range o.fields {
		names[i] = f.name
	}
	return names
}

func fileObject() *object {
	return &object{"The configuration of limitctl: policies, and contexts.", []field{
		{"prefix", "What the store's keys begin with; rl unless said.", false, text},
		{"policies", "Policies by name: lists of limits that are decided together.", false, namedObjects("policy")},
		{"contexts", "Stores by name. Not in a limitctl.yaml that is found in the working directory.", false, namedObjects("context")},
	}}
}

func policyObject() *object {
	return &object{"Limits that are decided together, all or nothing, in the order written.", []field{
		{"on_error", "What an unreachable store means for requests under the policy; fail unless said.", false, oneOf("allow", "deny", "fail")},
		{"hash_by", "The attributes that put all limits into one slot of a Redis Cluster: the first of every limit's by.", false, listOfNames},
		{"limits", "The limits, those most likely to deny first.", true, listOf("limit")},
	}}
}

func limitObject() *object {
	return &object{"One limit of a policy.", []field{
		{"name", "The limit's name, which its keys end with.", true, aName},
		{"by", "The attributes that together are who is limited.", true, listOfNames},
		{"limit", limitAbout, true, text},
		{"algorithm", algorithmAbout, false, anAlgorithm},
		{"burst", burstAbout, false, aCount},
		{"shadow", "Count and report it, and deny nothing by it.", false, yesOrNo},
		{"overrides", "Other limits for some; the first that applies counts.", false, listOf("override")},
	}}
}

func overrideObject() *object {
	return &object{"Another limit for requests with certain attributes. What it leaves out is as in the limit it overrides.", []field{
		{"when", "The attributes and values it applies to, all of them.", true, mapOfTexts},
		{"limit", limitAbout, false, text},
		{"algorithm", algorithmAbout, false, anAlgorithm},
		{"burst", burstAbout, false, aCount},
	}}
}

func contextObject() *object {
	return &object{"A store with a name, and what may be done to it.", []field{
		{"store", "The store's URL, as --store takes it.", true, text},
		{"prefix", "What the store's keys begin with; else as the policies' file says.", false, text},
		{"password_file", "The file that holds the password; a relative path is from this file's directory, ~ is the home directory.", false, text},
		{"password_env", "The environment variable that holds the password.", false, text},
		{"read_only", "Let nothing write.", false, yesOrNo},
		{"protected", "Ask for the context's name before anything is destroyed.", false, yesOrNo},
	}}
}

const (
	limitAbout     = "How much is allowed: [ALGORITHM:]COUNT/PERIOD[,burst=N], such as 10/1m."
	algorithmAbout = "How usage is counted; token-bucket unless said."
	burstAbout     = "What a bucket allows at once when full; its count unless said."
)

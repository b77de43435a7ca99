package yamlfile

// The bounds, for tests.
const (
	MaxLines    = maxLines
	MaxLine     = maxLine
	MaxSiblings = maxSiblings
	MaxIndent   = maxIndent
	MaxBlank    = maxBlank
	MaxTags     = maxTags
	MaxNamed    = maxNamed
)

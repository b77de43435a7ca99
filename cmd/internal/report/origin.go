package report

// Origin is what made a document, so that somebody else can make it again.
type Origin struct {
	// Version is that of limitctl, and Command the command line, without secrets.
	Version string `json:"version"`
	Command string `json:"command"`
	// Host is the name of the machine that sent the load, empty if it is not known. CPUs is
	// how many of its processors limitctl used, and Platform is such as linux/amd64.
	Host     string `json:"host,omitempty"`
	Platform string `json:"platform,omitempty"`
	CPUs     int    `json:"cpus,omitempty"`
}

package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/texts"
)

const home = "https://github.com/limitctl/limitctl"

// An spdxPackage is an entry of an inventory: the program, a module or the standard library of Go.
type spdxPackage struct {
	Name     string         `json:"name"`
	ID       string         `json:"SPDXID"`
	Version  string         `json:"versionInfo"`
	Location string         `json:"downloadLocation"`
	Licence  string         `json:"licenseConcluded"`
	Analyzed bool           `json:"filesAnalyzed"`
	External []spdxExternal `json:"externalRefs"`
}

type spdxExternal struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelation struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxDocument struct {
	Version   string         `json:"spdxVersion"`
	Licence   string         `json:"dataLicense"`
	ID        string         `json:"SPDXID"`
	Name      string         `json:"name"`
	Namespace string         `json:"documentNamespace"`
	Creation  spdxCreation   `json:"creationInfo"`
	Packages  []spdxPackage  `json:"packages"`
	Relations []spdxRelation `json:"relationships"`
}

// inventory is the SPDX document of a program, from the build information that the linker put into it.
func (r *release) inventory(program string, t target) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	name := "limitctl-" + r.version + "-" + t.name()
	document := spdxDocument{Version: "SPDX-2.3", Licence: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name, Namespace: home + "/spdx/" + name,
		Creation: spdxCreation{r.date.Format(time.RFC3339), []string{"Tool: limitctl-release"}}}
	add := func(path, version, licence, relation string) {
		p := spdxPackage{Name: path, ID: "SPDXRef-" + spdxName().ReplaceAllString(path, "-"), Version: version, Location: "NOASSERTION",
			Licence: licence, External: []spdxExternal{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}}}
		from := document.ID
		if len(document.Packages) > 0 {
			from = document.Packages[0].ID
		}
		document.Packages = append(document.Packages, p)
		document.Relations = append(document.Relations, spdxRelation{from, relation, p.ID})
	}
	add(info.Main.Path, "v"+r.version, "MIT", "DESCRIBES")
	add("std", strings.TrimPrefix(info.GoVersion, "go"), "BSD-3-Clause", "DEPENDS_ON")
	for _, module := range info.Deps {
		add(linked(module).Path, linked(module).Version, "NOASSERTION", "DEPENDS_ON")
	}
	text, err := json.MarshalIndent(document, "", "  ")
	return append(text, '\n'), err
}

// spdxName matches what an SPDX identifier cannot contain.
var spdxName = texts.Regexp(`[^A-Za-z0-9.-]+`)

// linked is the module that was linked in, which can replace the one that go.mod names.
func linked(module *debug.Module) *debug.Module {
	if module.Replace != nil {
		return module.Replace
	}
	return module
}

// notices are the licences of all that is linked into any of the programs. A module without one is an error.
func notices(programs []string) ([]byte, error) {
	var modules []string
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return nil, err
		}
		for _, module := range info.Deps {
			modules = append(modules, linked(module).Path+"@"+linked(module).Version)
		}
	}
	slices.Sort(modules)
	modules = slices.Compact(modules)
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("limitctl contains these modules, under these licences.\n")
	if err := addLicences(&b, "the standard library of Go", strings.TrimSpace(string(root))); err != nil {
		return nil, err
	}
	for _, module := range modules {
		output, err := exec.Command("go", "mod", "download", "-json", module).Output() // it is in the cache
		if err != nil {
			return nil, fmt.Errorf("%s: %w", module, err)
		}
		var found struct{ Dir string }
		if err := json.Unmarshal(output, &found); err != nil {
			return nil, err
		}
		if err := addLicences(&b, module, found.Dir); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

var (
	anything    = texts.Regexp(``)
	licenceFile = texts.Regexp(`(?i)^(un)?licen[cs]e|^copying|^notice`)
	readmeFile  = texts.Regexp(`(?i)^readme`)
	// licenceTitle is the title of a part of a README about the licence.
	licenceTitle = texts.Regexp(`(?im)^#+ *(un)?licen[cs]e`)
)

// addLicences adds the licences in a folder: the files about them or, if there are none, a README that names the licence.
func addLicences(b *bytes.Buffer, of, folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	found := false
	add := func(name, content *regexp.Regexp) error {
		for _, entry := range entries {
			if entry.IsDir() || !name.MatchString(entry.Name()) || strings.HasSuffix(entry.Name(), ".go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
			if err != nil {
				return err
			}
			if content.Match(text) {
				fmt.Fprintf(b, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), of, entry.Name(), bytes.TrimSpace(text))
				found = true
			}
		}
		return nil
	}
	if err := add(licenceFile(), anything()); err != nil || found {
		return err
	}
	if err := add(readmeFile(), licenceTitle()); err != nil || found {
		return err
	}
	return fmt.Errorf("%s has no licence in %s", of, folder)
}

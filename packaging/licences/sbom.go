package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
)

// A bom is a bill of materials: the part of CycloneDX 1.6 that is used here,
// https://cyclonedx.org/docs/1.6/json/. It has no serial number and no time, so
// that the same program has the same bytes.
type bom struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Licences   []licensed `json:"licenses,omitempty"`
	PURL       string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// licensed is an SPDX expression.
type licensed struct {
	Expression string `json:"expression"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn,omitempty"`
}

// sbom writes which modules are linked into a program, as the program itself
// says, with their licences.
func sbom(program, version string, out io.Writer) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	modules, err := linked(settings(info)...)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	main := component{
		Type: "application", Ref: "amberfs", Name: "amberfs", Version: version, PURL: purl(info.Main.Path, version),
		Hashes:   []hash{{"SHA-256", hex.EncodeToString(sum[:])}},
		Licences: []licensed{{"Apache-2.0"}},
	}
	for _, s := range settings(info) {
		main.Properties = append(main.Properties, property{"go:" + s[:strings.IndexByte(s, '=')], s[strings.IndexByte(s, '=')+1:]})
	}
	b := bom{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{main}}
	std := strings.TrimPrefix(info.GoVersion, "go")
	b.add(component{Type: "library", Name: "std", Version: std, PURL: purl("std", std), Licences: []licensed{{"BSD-3-Clause"}}})
	for _, d := range info.Deps {
		m, ok := modules[d.Path]
		if !ok || m.Version != d.Version {
			return fmt.Errorf("%s is made of %s %s, this source is not: build it from this source", program, d.Path, d.Version)
		}
		l, err := licence(m.Dir)
		if err != nil {
			return err
		}
		b.add(component{
			Type: "library", Name: d.Path, Version: d.Version, PURL: purl(d.Path, d.Version),
			Licences: []licensed{{expression(l)}}, Properties: []property{{"go:sum", d.Sum}},
		})
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(b)
}

// add adds a component that the program is made of.
func (b *bom) add(c component) {
	c.Ref = c.PURL
	b.Components = append(b.Components, c)
	if len(b.Dependencies) == 0 {
		b.Dependencies = []dependency{{Ref: "amberfs"}}
	}
	b.Dependencies[0].On = append(b.Dependencies[0].On, c.Ref)
}

// settings are the variables of go list for the system that a program is for.
func settings(info *debug.BuildInfo) []string {
	var out []string
	for _, s := range info.Settings {
		if s.Key == "GOOS" || s.Key == "GOARCH" || s.Key == "CGO_ENABLED" {
			out = append(out, s.Key+"="+s.Value)
		}
	}
	return out
}

// purl is a package URL, https://github.com/package-url/purl-spec.
func purl(path, version string) string {
	if version == "" {
		return "pkg:golang/" + path
	}
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}

// expression is the SPDX expression for what licence found.
func expression(names string) string {
	var all []string
	for name := range strings.SplitSeq(names, ", ") {
		name, _, _ = strings.Cut(name, " ")
		all = append(all, name)
	}
	return strings.Join(all, " AND ")
}

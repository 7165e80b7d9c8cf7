package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// What follows has the names of CycloneDX 1.5, https://cyclonedx.org/docs/1.5/json/.

type sbom struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Serial       string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Compositions []composited `json:"compositions"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string         `json:"type"`
	Ref        string         `json:"bom-ref"`
	Name       string         `json:"name"`
	Version    string         `json:"version"`
	Scope      string         `json:"scope,omitempty"`
	Hashes     []hash         `json:"hashes,omitempty"`
	Licences   []licence      `json:"licenses,omitempty"`
	PURL       string         `json:"purl"`
	Properties []nameAndValue `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type licence struct {
	Licence struct {
		ID string `json:"id"`
	} `json:"license"`
}

type nameAndValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type composited struct {
	Aggregate  string   `json:"aggregate"`
	Assemblies []string `json:"assemblies"`
}

// licencesOf words SPDX identifiers.
func licencesOf(ids ...string) []licence {
	all := make([]licence, len(ids))
	for i, id := range ids {
		all[i].Licence.ID = id
	}
	return all
}

// makeSBOM lists what is in a binary: the modules that the linker recorded there, with their licences, and the standard
// library. It is the same for the same binary.
func makeSBOM(file string, s stamp, t target, known []*module) ([]byte, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("what is in %s: %w", file, err)
	}
	bom, err := describe(info, sha256.Sum256(content), s, t, known)
	if err != nil {
		return nil, fmt.Errorf("what is in %s: %w", file, err)
	}
	text, err := json.MarshalIndent(bom, "", "  ")
	return append(text, '\n'), err
}

// describe lists what the linker recorded in a binary with the checksum sum.
func describe(info *buildinfo.BuildInfo, sum [sha256.Size]byte, s stamp, t target, known []*module) (*sbom, error) {
	own := component{
		Type: "application", Name: "zkd", Version: s.version, Licences: licencesOf("Apache-2.0"),
		PURL:       fmt.Sprintf("pkg:generic/zkd@%s?arch=%s&os=%s", s.version, t.arch, t.os),
		Hashes:     []hash{{"SHA-256", hex.EncodeToString(sum[:])}},
		Properties: []nameAndValue{{"zkd:commit", s.commit}},
	}
	own.Ref = own.PURL
	bom := &sbom{
		Format: "CycloneDX", Spec: "1.5", Version: 1, Serial: "urn:uuid:" + uuid(sum),
		Metadata:     metadata{Timestamp: s.time.Format(time.RFC3339), Component: own},
		Components:   []component{library("std", strings.TrimPrefix(info.GoVersion, "go"), []string{"BSD-3-Clause"})},
		Compositions: []composited{{"complete", []string{own.Ref}}},
	}
	licences := map[string][]string{}
	for _, m := range known {
		licences[m.path] = m.licences
	}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		if licences[dep.Path] == nil {
			return nil, fmt.Errorf("the licence of module %s is not known: run go generate ./conf/package", dep.Path)
		}
		c := library(dep.Path, dep.Version, licences[dep.Path])
		c.Properties = []nameAndValue{{"zkd:go.sum", dep.Sum}}
		bom.Components = append(bom.Components, c)
	}
	return bom, nil
}

// library is a module as a part of the binary.
func library(path, version string, licences []string) component {
	purl := "pkg:golang/" + path + "@" + version
	return component{Type: "library", Ref: purl, Name: path, Version: version, Scope: "required",
		Licences: licencesOf(licences...), PURL: purl}
}

// uuid makes a version 8 UUID (RFC 9562: of one's own making) of a checksum.
func uuid(sum [sha256.Size]byte) string {
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

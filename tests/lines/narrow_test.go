package main

import (
	"strings"
	"testing"
)

// maxMethods and maxFields are how much a reader may meet on a type, promoted methods included.
const maxMethods, maxFields = 40, 20

// TestTypesAreNarrow: no type of the module shows more than a reader can hold.
func TestTypesAreNarrow(t *testing.T) {
	m := module{types: map[string]*goType{}, lines: map[string]int{}}
	if err := m.read("../.."); err != nil {
		t.Fatal(err)
	}

	seen := 0
	for _, of := range m.types {
		if strings.HasPrefix(of.name, "tests/") {
			continue
		}
		seen++
		if n := len(m.methodsMet(of, map[string]bool{of.name: true})); n > maxMethods {
			t.Errorf("%s has %d methods, at most %d are wanted: part it by role", of.name, n, maxMethods)
		}
		if of.fields > maxFields {
			t.Errorf("%s has %d fields, at most %d are wanted: part it by role", of.name, of.fields, maxFields)
		}
	}
	if seen < 500 {
		t.Errorf("%d types were read", seen)
	}
}

// Package arch holds what the whole project keeps to.
//
// Imported by: tests.
package arch

// MaySkip lists the tests that may be skipped where everything is installed, as in
// scripts/fresh: they need another kernel, or hardware. Keys are packages and tests,
// with the wildcards of path.Match.
var MaySkip = map[string]string{
	"tests/powercut Test*": "a kernel that can shut an ext4 down",
}

// Package trees has what the tests of directories, archives and git share: trees in memory, and sinks
// that build and compare them.
//
// Imported by: tests.
package trees

// Package sandboxes has the tests that work in a fork inside of each sandbox that the how-to
// names: with AMBERFS_TEST_SANDBOXES=1, which make test-sandboxes sets.
//
// Imported by: tests.
package sandboxes

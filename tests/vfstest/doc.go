// Package vfstest has disks for tests: one in memory that knows what a power cut
// leaves behind ([Mem]), and one that fails at a chosen operation ([FailAt]).
//
// Imported by: tests.
package vfstest

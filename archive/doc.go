// Package archive reads and writes tar archives, and the layers of images, as streams of entries.
//
// Imported by: all of cmd, gitbridge, service.
//
// A sink gets only paths below its root. This package writes no files of the host.
package archive

// Package archive reads and writes tar archives, and the layers of images, as streams of entries.
//
// Imported by: all of cmd, gitbridge, service.
//
// Paths reach a sink clean, relative and without "..". Nothing is extracted anywhere on the host.
package archive

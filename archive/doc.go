// Package archive reads and writes tar archives, and the layers of images, as streams of entries.
//
// Paths reach a sink clean, relative and without "..". Nothing is extracted anywhere on the host.
package archive

// Package feed carries a tree over the control socket, from a command that reads
// it somewhere (a git repository, an archive, a directory, as its user and in its
// environment) to the daemon that builds it.
//
// The stream has an entry for each call of a gitbridge.Sink:
//
//	'd' path meta                          a directory
//	'f' path meta size bytes               a regular file
//	'p' path meta size parts               a regular file with holes
//	'l' path meta target                   a symbolic link
//	'h' path path                          a hard link, to the second path
//	's' path meta rdev                     a FIFO, socket or device
//	'.'                                    the end
//
// Numbers are unsigned varints, times zigzag ones. Texts have their length in
// front. A part is its offset plus 1, its bytes in pieces with their length in
// front, and an empty piece; offset 0 ends the parts. A stream that stops before
// its end brings nothing.
package feed

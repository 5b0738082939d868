// Package handoff gives a snapshot to one other machine through a remote: by a line of text, for a limited
// time, encrypted to a key in the line.
//
// Imported by: cmd/amberfs, remote/known, service.
//
// # An area
//
// The handoffs of a store have an area on the remote, URL/handoff/ID, which is a remote of its own. A handoff
// H has these refs there:
//
//	H        the snapshot. It is encrypted, as its objects are, to a data key that is new for each handoff
//	H.line   a copy of it, encrypted to the key in the line, with the data keys of H and of the handoffs
//	         before, whose objects the snapshot shares. Without this ref, the line is worth nothing
//	H.got1   a copy of it that a receiver wrote to claim the line; got2 is the second time, and so on
//	H.back   the snapshot that the receiver sent back
//
// So a line opens its own handoff and the ones before, but no later one, and each push sends only what the
// handoff before does not have.
package handoff

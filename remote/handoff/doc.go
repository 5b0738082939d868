// Package handoff sends an encrypted snapshot to another machine through a remote. The sender prints a line of text.
// With this line, the other machine can read the snapshot for a limited time.
//
// Imported by: cmd/amberfs, remote/known, service.
//
// # An area
//
// The handoffs of a store have an area on the remote, URL/handoff/ID, which is a remote of its own. In the
// area, a handoff with the id H has these refs:
//
//	H        the snapshot. It and its objects are encrypted to a data key that is new for each handoff
//	H.line   a copy of the ref H, encrypted to the key in the line. It has the data keys of H and of the
//	         earlier handoffs whose objects the snapshot shares. Without this ref, the line cannot be used
//	H.got1   a copy of the ref H. The first receiver writes it to claim the line, the second one writes H.got2
//	H.back   the snapshot that the receiver sent back
//
// So a line decrypts its own handoff and earlier ones, but no later one. Each handoff sends only the objects that the
// previous handoff does not have.
package handoff

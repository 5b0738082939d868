// Package service is what one can ask of a mounted store: every operation once,
// with its arguments, its result and the right that it needs.
//
// # One operation, two ways in
//
// An operation is an Op: a name, a type of arguments, a type of result and the
// function that does the work. From the list of them follow
//
//   - the routes of the HTTP server on the socket STORE/socket (http.go), and
//     docs/api/openapi.yaml, which a test holds against them;
//   - the control file `.snapshots/call`, which carries one request as a JSON
//     object, {"op":"history","path":"src/a.py"}, and its answer (request.go);
//   - the other control files, which call Do with the arguments' type.
//
// Package client asks either way and is what the command line and the MCP server
// are made of.
//
// # The life of a request
//
// A Request has the caller, as the kernel reports it, the workspace and the streams.
// Service.do waits until the mount is up, checks the caller's rights (admit), runs the
// operation, and gives its error a kind, a sentence and a hint (package errs).
//
// # Who may ask
//
// Over the socket, the user of the daemon and root may use every operation in every
// workspace. Through a control file, a caller that the kernel let write it may use the
// operations that Op.Access allows, in the workspace of the file. Package snapshot
// enforces what the policy protects against both.
//
// # Streams
//
// Some operations take a stream (a tar archive), some give one: text, bytes or
// events. Over HTTP it is the body; an error after its beginning comes in the
// trailer Amberfs-Error, the result in Amberfs-Result. Events are SSE. In the
// answer of a control file text and events are fields of the object.
//
// An operation works in the store without a lock of this package.
package service

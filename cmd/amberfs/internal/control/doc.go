// Package control is the conversation between a command and the daemon that
// owns a store, over the Unix socket STORE/socket.
//
// # A conversation
//
// One connection carries one request. The command sends one line of JSON:
//
//	{"op":"restore","workspace":["try"],"args":{"name":"v1"},"command":"amberfs restore v1"}
//
// and, when the operation takes input (an archive), raw bytes after it. The
// daemon answers with lines of JSON, any number of these
//
//	{"progress":{"what":"sealing","done":1048576,"total":9437184,"unit":"bytes"}}
//	{"item":{…}}                    one of many, for listings that never end
//	{"data":4096}                   followed by exactly so many raw bytes
//
// and then exactly one of
//
//	{"result":{…}}
//	{"error":{"kind":"not-found","message":"…","hint":"…"}}
//
// Input uses the same {"data":N} lines, ended by {"data":0}. A command that
// hangs up cancels its request.
//
// # Who may speak
//
// The socket has mode 0600, and each connection's peer is checked by
// SO_PEERCRED: the user that the daemon runs as, or root. The credentials are
// also what captures and events record as their maker.
//
// # Long paths
//
// A socket address holds 107 bytes. Both sides reach the socket through
// /proc/self/fd/N/socket, N being the open store directory, so that a store may
// lie as deep as it likes.
package control

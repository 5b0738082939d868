// Package wire writes and reads the compact byte strings that snapshot objects
// and journal records are made of.
//
// There are only four shapes: single bytes, LEB128 varints (signed ones
// zig-zagged), raw bytes of a length known from the context, and length-prefixed
// byte strings. A value has exactly one encoding: a varint with needless
// continuation bytes is refused, so that equal values always hash equally.
//
// A Decoder never panics and never allocates more than its input justifies,
// whatever the bytes are. Its first error sticks and every later read returns
// zero values, so a decode function reads field after field and asks Err (or
// Finish) once at the end.
package wire

// Package wire encodes and decodes snapshot objects and the payloads of journal records.
//
// There are four encodings: single bytes; LEB128 varints, in zig-zag form if they are signed;
// raw bytes of a length known from the context; and length-prefixed
// byte strings. A value has exactly one encoding: a varint with needless
// continuation bytes is an error, so that equal values have equal hashes.
//
// A Decoder does not panic and does not allocate much more memory than its input has,
// for any input. After the first error every read returns zero values, so a decode
// function reads field after field and calls Err (or Finish) once at the end.
package wire

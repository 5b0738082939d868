// Package backend talks to the services that hold pushed snapshots: S3-compatible
// object stores, OCI registries and plain directories. It is the only package
// that knows their client libraries.
//
// # Keys
//
// A backend is a flat set of keys with small or large values; object/FORMAT.md lists them.
// Objects are named by SHA-256 because that is the name by which a registry
// knows its blobs, so that one list of objects is right on every kind of remote.
// What is in an object is checked by the BLAKE3 of each part; the name only has
// to be unique.
//
// # Conditions
//
// Put can ask that the key be absent. Of any number of such Puts at once one succeeds.
// That decides a race between two pushes of one name, and there is no other lock. S3
// has had conditional writes since 2024; not every compatible store has them, and
// some ignore them silently, so Probe tries. In a directory the rename does not replace.
// A registry cannot do it at all: there the backend looks first and writes then,
// see Collects.
//
// # Errors and secrets
//
// Errors are sorted into the sentinel errors below, and say which host failed at
// what. Credentials come from where the services' own clients find them. They are
// never part of a URL, and errors never carry a request's headers or query.
package backend

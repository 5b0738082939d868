// Package backend makes the requests to the services that store pushed snapshots: S3-compatible
// object stores, OCI registries and plain directories. No other package uses their client
// libraries, except package image.
//
// Imported by: remote, remote/cache, remote/handoff, remote/image, remote/known, remote/object, service.
//
// # Keys
//
// A backend stores values under keys, without folders; object/FORMAT.md lists the keys.
// Objects are named by their SHA-256, because a registry names its blobs so: a ref has the
// same names of objects on every kind of remote. The name only has to be unique: readers check
// each record in an object by its BLAKE3 hash.
//
// # Conditions
//
// Put can require that the key does not exist. If several such Puts of one key run at once, one
// succeeds. That decides a race between two pushes of one name; there is no other lock. S3
// has had conditional writes since 2024. Some compatible stores do not have them, and
// some ignore the condition silently, so Probe tests them. In a directory, Put renames a temporary
// file to the key, with a flag that fails if the key exists. A registry has no conditional writes:
// there Put first checks whether the key exists, and then writes; see Backend.IsRegistry.
//
// # Errors and secrets
//
// An error wraps one of the errors below if it fits, and names the operation, the key and the
// host. Credentials come from the places where the services' own clients find them. A URL with
// credentials is refused, and errors never contain a request's headers or query.
package backend

// Package cas keeps objects by the hash of their content, in append-only packs
// with an index.
package cas

// Package importer builds a tree from what a source brings, beside the
// workspace and not through the mount: a Builder is the gitbridge.Sink behind
// `mount --from` and `import`.
//
// Contents go straight into chunks, several small files at a time; contents
// that the store has already are recognised by their hashes and not written
// again. Nothing is visible before Finish has sealed the whole tree and the
// caller grafts it into a workspace, in one step.
package importer

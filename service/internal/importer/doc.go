// Package importer builds a tree from the entries of a source: a directory, an archive or the layers
// of an image. The methods Add and Layer of a Builder are sinks of gitbridge, for `mount --from`,
// `import` and `refresh`. The tree is not a part of a workspace while it is built. Finish stores it,
// and then the caller puts it into a workspace in one step.
package importer

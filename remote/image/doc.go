// Package image finds container images in registries, OCI layouts and archives of docker, and
// writes them there. What is in their layers is up to its callers.
package image

// Package image reads container images from registries, OCI layouts and archives of `docker save`, and
// writes them there. It does not look into the layers: its callers do.
//
// Imported by: all of cmd, service.
package image

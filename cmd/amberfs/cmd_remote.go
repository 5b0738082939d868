package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
)

// remoteCommand is the command of which the rows of operations on remotes are parts.
func remoteCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "remote",
		Short: "Manage remotes",
		Long: `A remote contains pushed snapshots:

  s3://BUCKET/PREFIX?endpoint=URL   an S3-compatible object store
  oci://HOST/REPOSITORY             an OCI registry
  file:///DIR                       a directory

Credentials come from AWS_*, ~/.aws and ~/.docker/config.json, in the environment of
"amberfs mount", or from a file like these two that ?credentials=FILE in the URL names.
They are not stored.`,
		Example: `  amberfs remote add team 's3://snapshots/web?endpoint=https://s3.example.org'`,
		Args:    args(0, 0, "one of its commands: add, list, trust, remove, snapshots, rm, verify, gc"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.showOp(cmd, service.Remotes{}) },
	}
}

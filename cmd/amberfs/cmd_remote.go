package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/service"
)

func remoteCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
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
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.listRemotes(cmd) },
	}
	for _, c := range []*cobra.Command{
		remoteAddCommand(a), remoteListCommand(a), remoteTrustCommand(a), remoteRemoveCommand(a), remoteSnapshotsCommand(a),
		remoteRmCommand(a), remoteVerifyCommand(a), remoteGCCommand(a),
	} {
		c.DisableFlagsInUseLine = true
		cmd.AddCommand(c)
	}
	return cmd
}

func remoteAddCommand(a *app) *cobra.Command {
	var req service.AddRemote
	cmd := &cobra.Command{
		Use:   "add NAME URL [--recipient KEY]...",
		Short: "Add a remote",
		Long: `Registers the remote at URL as NAME. A new remote is probed first, and guarantees
that it does not provide are reported.

--recipient encrypts everything on a new remote. The service then sees sizes, times and
names only. AMBERFS_AGE_IDENTITY names the file that decrypts it. If the remote has
other keys later, nothing is sent until "amberfs remote remove" and another add.`,
		Example: `  amberfs remote add team s3://bucket/team
  amberfs remote add nas file:///mnt/nas/amberfs
  amberfs remote add hub oci://ghcr.io/me/workspaces --recipient age1...`,
		Args: args(2, 2, "a NAME and a URL"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			req.Name, req.URL = argv[0], argv[1]
			var done service.AddedRemote
			if err := a.askHere(cmd.Context(), req, &done); err != nil {
				return err
			}
			for _, w := range done.Warnings {
				a.note("%s", w)
			}
			return a.print(done, func() { a.printf("remote %s added: %s\n", done.Name, done.URL) })
		},
	}
	cmd.Flags().StringArrayVar(&req.Recipients, "recipient", nil, "encrypt to this age `KEY` (age1...)")
	return cmd
}

func remoteListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List remotes",
		Args:  args(0, 0, "no arguments"),
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.listRemotes(cmd) },
	}
}

func (a *app) listRemotes(cmd *cobra.Command) error {
	return show(a, cmd, service.Remotes{}, func(done service.RemoteList) {
		for _, r := range done.Remotes {
			a.printf("%s\t%s\n", r.Name, r.URL)
		}
		if len(done.Remotes) == 0 {
			a.printf("no remotes\n")
		}
	})
}

func remoteTrustCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "trust REMOTE",
		Short: "Agree to contact a remote that came with the store",
		Long: `A store that another user made can name remotes that you did not add. Requests to them
would be signed with your credentials, so amberfs contacts none before this command.
"amberfs status" lists them.`,
		Args: args(1, 1, "a REMOTE"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			return show(a, cmd, service.TrustRemote{Remote: argv[0]}, func(done service.Remote) { a.printf("remote %s is trusted: %s\n", done.Name, done.URL) })
		},
	}
}

func remoteRemoveCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Forget a remote",
		Args:  args(1, 1, "a NAME"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			return show(a, cmd, service.RemoveRemote{Name: argv[0]}, func(done service.None) { a.printf("remote %s removed\n", argv[0]) })
		},
	}
}

func remoteSnapshotsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "snapshots REMOTE",
		Short: "List the snapshots on a remote, newest first",
		Args:  args(1, 1, "a REMOTE"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			return show(a, cmd, service.RemoteSnapshots{Remote: argv[0]}, func(done service.RemoteSnapshotList) {
				if len(done.Snapshots) == 0 {
					a.printf("no snapshots\n")
				}
				var rows [][]string
				for _, s := range done.Snapshots {
					row := service.Row(s.Info)
					if s.Problem != "" {
						row = []string{s.Name, "-", "-", service.OneLine(s.Problem)}
					}
					rows = append(rows, row)
				}
				printTable(a.stdout, rows)
			})
		},
	}
}

func remoteRmCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "rm REMOTE SNAPSHOT...",
		Short: "Delete snapshots from a remote",
		Long:  `Deletes snapshots from a remote. "amberfs remote gc" frees what only they needed.`,
		Args:  args(2, -1, "a REMOTE and at least one SNAPSHOT"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			return show(a, cmd, service.RemovePushed{Remote: argv[0], Names: argv[1:]}, func(done service.Removed) {
				for _, name := range done.Names {
					a.printf("snapshot %s removed from %s\n", name, argv[0])
				}
			})
		},
	}
}

func remoteVerifyCommand(a *app) *cobra.Command {
	var deep bool
	cmd := &cobra.Command{
		Use:   "verify REMOTE [--deep]",
		Short: "Check the snapshots on a remote",
		Long: `Checks that REMOTE has everything that its snapshots need, with the right sizes. If
something is missing or damaged, it lists the snapshots and exits with status 7.`,
		Args: args(1, 1, "a REMOTE"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			var done service.VerifiedRemote
			err := a.askHere(cmd.Context(), service.VerifyRemote{Remote: argv[0], Deep: deep}, &done)
			if err != nil && errs.ScriptKind(err) != errs.Damaged {
				return err
			}
			return a.printFailed(done, err, func() {
				for _, d := range done.Damage {
					a.printf("%s: %s\n", d.Snapshot, d.Problem)
				}
				a.printf("%s, %s, %s\n", plural(done.Snapshots, "snapshot", "snapshots"), plural(done.Objects, "object", "objects"), service.BytesText(done.Bytes))
			})
		},
	}
	cmd.Flags().BoolVar(&deep, "deep", false, "also read and check every byte")
	return cmd
}

func remoteGCCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "gc REMOTE",
		Short: "Free space on a remote",
		Long: `Frees what no snapshot on REMOTE needs. Run it once a day, for example from cron. Of
three runs, each at least a day after the other, the third deletes an object. Expired
snapshots are deleted too. A registry frees untagged data itself.`,
		Args: args(1, 1, "a REMOTE"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			return show(a, cmd, service.GCRemote{Remote: argv[0]}, func(done remote.Collected) {
				a.printf("freed %s (%d objects); %d more wait for later runs\n", service.BytesText(done.Bytes), done.Removed, done.Waiting)
			})
		},
	}
}

func pullCommand(a *app) *cobra.Command {
	var req service.Pull
	cmd := &cobra.Command{
		Use:   "pull REMOTE SNAPSHOT... [--as NAME]",
		Short: "Bring snapshots from a remote into the store",
		Long: `Copies snapshots of REMOTE, a name or a URL, into the store. An interrupted pull continues
when it is run again. The workspace does not change.`,
		Example: `  amberfs pull team v1
  amberfs pull s3://bucket/team v1 --as theirs`,
		Args: args(2, -1, "a REMOTE and at least one SNAPSHOT"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			req.Remote, req.Snapshots = argv[0], argv[1:]
			return show(a, cmd, req, func(done service.PulledList) {
				for _, i := range done.Pulled {
					a.printf("snapshot %s pulled from %s: %s, %s\n", i.Name, req.Remote, plural(int(i.Files), "file", "files"), service.BytesText(i.Bytes))
				}
			})
		},
	}
	cmd.Flags().StringVar(&req.As, "as", "", "use `NAME` as its name there")
	return cmd
}

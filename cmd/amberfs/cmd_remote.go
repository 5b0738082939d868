package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/service"
)

func remoteCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remote",
		Short: "Places that hold pushed snapshots",
		Long: `A remote is a place that other machines reach and that holds pushed snapshots:

  s3://BUCKET/PREFIX?endpoint=URL   an S3-compatible object store
  oci://HOST/REPOSITORY             a registry
  file:///DIR                       a directory: a disk, NFS, a stick

Credentials are taken from where the clients of these services look: AWS_* and
~/.aws, ~/.docker/config.json. They are not kept in the store. The daemon talks to
the remote, so what counts is its environment: that of "amberfs mount".

"remote add NAME URL --recipient KEY" encrypts, "remote verify REMOTE --deep" reads
every byte; "amberfs help remote add" and so on say more.`,
		Args: args(0, 0, "one of its commands: add, list, remove, snapshots, rm, verify, gc"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listRemotes(cmd) },
	}
	for _, c := range []*cobra.Command{
		remoteAddCommand(a), remoteListCommand(a), remoteRemoveCommand(a), remoteSnapshotsCommand(a),
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
		Short: "Set a remote up, or get to know one",
		Long: `Calls the remote at URL by NAME from now on. A place that is no remote yet is tried
out first: whether bytes and ranges come back as they were written, and whether of
several writers of one name one wins. What does not hold is said.

--recipient encrypts everything to an age key, for a new remote; the service then
sees sizes only. AMBERFS_AGE_IDENTITY names the file that decrypts it.`,
		Example: `  amberfs remote add origin s3://bucket/team
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
		Short: "List the remotes",
		Args:  args(0, 0, "no arguments"),
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.listRemotes(cmd) },
	}
}

func (a *app) listRemotes(cmd *cobra.Command) error {
	var done service.RemoteList
	if err := a.askHere(cmd.Context(), service.Remotes{}, &done); err != nil {
		return err
	}
	return a.print(done, func() {
		for _, r := range done.Remotes {
			a.printf("%s\t%s\n", r.Name, r.URL)
		}
		if len(done.Remotes) == 0 {
			a.printf("no remotes\n")
		}
	})
}

func remoteRemoveCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Forget a remote; nothing on it changes",
		Args:  args(1, 1, "a NAME"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			var done service.None
			if err := a.askHere(cmd.Context(), service.RemoveRemote{Name: argv[0]}, &done); err != nil {
				return err
			}
			return a.print(done, func() { a.printf("remote %s removed\n", argv[0]) })
		},
	}
}

func remoteSnapshotsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "snapshots REMOTE",
		Short: "List the snapshots on a remote, newest first",
		Args:  args(1, 1, "a REMOTE"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			var done service.RemoteSnapshotList
			if err := a.askHere(cmd.Context(), service.RemoteSnapshots{Remote: argv[0]}, &done); err != nil {
				return err
			}
			return a.print(done, func() { a.printRemoteSnapshots(done) })
		},
	}
}

func (a *app) printRemoteSnapshots(done service.RemoteSnapshotList) {
	if len(done.Snapshots) == 0 {
		a.printf("no snapshots\n")
		return
	}
	w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	for _, s := range done.Snapshots {
		if s.Problem != "" {
			fmt.Fprintf(w, "%s\t-\t-\t%s\n", s.Name, service.OneLine(s.Problem))
			continue
		}
		fmt.Fprintf(w, "%s\t%.12s\t%s\t%s\n", s.Name, s.ID, s.Created.Format(time.RFC3339), service.OneLine(s.Message))
	}
	w.Flush()
}

func remoteRmCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "rm REMOTE SNAPSHOT...",
		Short: "Remove snapshots from a remote",
		Long: `Removes snapshots from a remote. What only they needed is given back by "amberfs
remote gc".`,
		Args: args(2, -1, "a REMOTE and at least one SNAPSHOT"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			var done service.Removed
			if err := a.askHere(cmd.Context(), service.RemovePushed{Remote: argv[0], Names: argv[1:]}, &done); err != nil {
				return err
			}
			return a.print(done, func() {
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
		Short: "Check that a remote has all that its snapshots need",
		Long: `Looks whether everything that the snapshots on REMOTE need is there and as long as
it should be; --deep reads and checks every byte. Exit status 7 and the damaged
snapshots when something is not.`,
		Args: args(1, 1, "a REMOTE"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			var done service.VerifiedRemote
			err := a.askHere(cmd.Context(), service.VerifyRemote{Remote: argv[0], Deep: deep}, &done)
			if err != nil && fail.KindOf(err) != fail.Damage {
				return err
			}
			if perr := a.print(done, func() { a.printVerifiedRemote(done) }); perr != nil {
				return perr
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&deep, "deep", false, "read every byte")
	return cmd
}

func (a *app) printVerifiedRemote(done service.VerifiedRemote) {
	for _, d := range done.Damage {
		a.printf("%s: %s\n", d.Snapshot, d.Problem)
	}
	a.printf("%s, %s, %s\n", plural(done.Snapshots, "snapshot", "snapshots"), plural(done.Objects, "object", "objects"), bytesText(done.Bytes))
}

func remoteGCCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "gc REMOTE",
		Short: "Give back what no snapshot on a remote needs",
		Long: `One run of a collection on REMOTE, for cron. It needs no pause of those who push:
what no snapshot needs is noted by one run, condemned by one at least a day later,
and removed by one at least a day after that. Snapshots whose time is over go, too.
A registry collects by itself.`,
		Args: args(1, 1, "a REMOTE"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			var done remote.Collected
			if err := a.askHere(cmd.Context(), service.GCRemote{Remote: argv[0]}, &done); err != nil {
				return err
			}
			return a.print(done, func() {
				a.printf("freed %s (%d objects); %d more wait for later runs\n", bytesText(done.Bytes), done.Removed, done.Waiting)
			})
		},
	}
}

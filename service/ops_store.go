package service

import (
	"fmt"
	"time"

	"github.com/amberfs/amberfs/remote"
)

var storeOps = []*Op{
	op(Op{Name: "policy", Cost: Cheap,
		About: "Returns the policy of the workspace.",
		Text:  Lines(policyText)}, presentPolicy[Policy]),
	op(Op{Name: "set-policy", Effect: Destroys, Cost: Cheap, Access: AccessStoreOwner,
		About:        "Changes the policy by a JSON merge patch.",
		ControlFiles: ControlFiles{RunsInline: true, Line: &Line{File: "policy", Parse: parsePolicy}},
		Text:         Lines(policyText),
		Commands: []Command{{Group: "The store:", Use: "policy [FILE]", Short: "Show or change what is kept, and limits",
			Long: `Shows the policy of the workspace as JSON, or changes it by the JSON merge patch in
FILE ("-" is standard input).`,
			Example: "  amberfs policy > policy.json\n  amberfs policy policy.json",
			Args:    "[patch]", ArgsText: "at most one FILE", Convert: convertFunc(convertPolicy)}}}, (*upkeep).setPolicy, presentPolicy),
	op(Op{Name: "status", Cost: Cheap,
		About: "Returns the state of the workspace and its store.",
		Text:  Fields(statusFields),
		Tools: []Tool{{Names: [3]string{"workspace_status"}, Title: "Show the status", About: "Show the status of the workspace and its store."}},
		Commands: []Command{{Group: "The store:", Use: "status", Short: "Show the state of the workspace or of a directory",
			Long: `Shows the state of the workspace and its store, and the commands that come next. Outside
of a mount, it shows the directory's runs, mounts and stores with their sizes.`,
			Example: "  amberfs status\n  amberfs status --json", WorksOutside: true}}}, (*upkeep).status),
	op(Op{Name: "export", Effect: Adds, Cost: GitMemory, Access: AccessWriter,
		About:        "Writes a snapshot as a commit into the store's own git repository.",
		ControlFiles: ControlFiles{Line: &Line{File: "export", Args: "name [ref]", Usage: `a snapshot, and perhaps a ref, as in: echo "SNAPSHOT [REF]" > export`}}}, (*Exports).export),
	op(Op{Name: "tar", Cost: CPUHeavy, Access: AccessSocket, Output: Tar, ControlFiles: ControlFiles{Alternative: "`tar` in .snapshots/NAME"},
		About: "Returns a snapshot as a tar archive."}, (*Exports).writeTar),
	op(Op{Name: "import", Effect: Destroys, Cost: TextMemory, Access: AccessSocket, Mutates: true, Input: Tar, ControlFiles: ControlFiles{Alternative: "`tar`, `git` or `cp` in the workspace"},
		About: "Imports a tree, all at once."}, (*imports).importTree),
	op(Op{Name: "refresh", Effect: Destroys, Cost: ListMemory | TextMemory | GitMemory, Access: AccessSocket, Mutates: true, Input: Bytes, ControlFiles: ControlFiles{Alternative: "`cp` or `git pull` in the workspace"},
		About: "Merges what changed in the directory that the workspace was filled from."}, (*imports).refresh),
	op(Op{Name: "record-apply", Effect: Adds, Cost: TextMemory, Access: AccessSocket, Input: Bytes,
		About: "Keeps what a directory has before an apply to it, and after."}, (*imports).recordApply),
	op(Op{Name: "undone-apply", Effect: Adds, Cost: Cheap, Access: AccessSocket,
		About: "Records that an apply to a directory was undone."}, (*imports).undoneApply),
	op(Op{Name: "layer", Cost: CPUHeavy, Access: AccessSocket, Output: Tar,
		About: "Returns what a snapshot changed in a container image, as a layer of an image."}, (*imports).writeLayer),
	op(Op{Name: "image", Cost: Cheap, Access: AccessSocket,
		About: "Returns the container image that a snapshot, or the present state, was made on top of."}, (*imports).findImage),
	op(Op{Name: "open", Cost: Cheap, Access: AccessSocket, Output: Events, ControlFiles: ControlFiles{Alternative: "`git` on .snapshots/NAME"},
		About: "Keeps the objects of a snapshot readable while the answer is read."}, (*Exports).open),
	op(Op{Name: "open-changes", Cost: Cheap, Access: AccessSocket, Output: Events, ControlFiles: ControlFiles{Alternative: "`cp` or `git diff` on the files"},
		About: "Keeps the objects of the workspace's base and of a snapshot, or of now, readable while the answer is read."}, (*Exports).openChanges),
	op(Op{Name: "objects", Cost: CPUHeavy, Access: AccessSocket, Output: Bytes,
		About: "Returns objects of an open snapshot, by their hashes."}, (*Exports).readObjects),
	op(Op{Name: "exported", Effect: Adds, Cost: Cheap, Access: AccessSocket,
		About: "Records the commit that a client exported a snapshot as."}, (*Exports).record),
	op(Op{Name: "freeze", Effect: Adds, Cost: Cheap, Access: AccessStoreOwnerInMain,
		About: "Stops all changes for a limited time.",
		Text:  Lines(func(f *Frozen) string { return "frozen until " + f.Until.Format(time.RFC3339) + "\n" }),
		Commands: []Command{{Group: "The store:", Use: "freeze [--for 30s]", Short: "Stop all changes for a while",
			Long: `Stops all changes to the store's workspaces, so that another program can copy a quiet
tree. Writers wait, readers continue. A reader still waits for a directory whose names
change, and before Linux 6.16 to close a file that changes. Reading a snapshot needs no
freeze. A crash or an upgrade of the daemon ends a freeze, and then thaw fails.`,
			Example: "  amberfs freeze --for 10s", Preset: Freeze{For: "30s"}, Flags: []Flag{{"for", "", "end the freeze after this `TIME`"}}}}}, (*freezes).freeze),
	op(Op{Name: "thaw", Effect: Adds, Cost: Cheap, Access: AccessStoreOwnerInMain,
		About: "Ends a freeze.",
		Text: Lines(func(t *Thawed) string {
			if t.Thawed {
				return "thawed\n"
			}
			return "not frozen\n"
		}),
		Commands: []Command{{Group: "The store:", Use: "thaw", Short: "End a freeze", Example: "  amberfs thaw"}}}, (*freezes).thaw),
	op(Op{Name: "gc", Effect: Destroys, Cost: CPUHeavy, Access: AccessStoreOwnerInMain,
		About: "Frees the space that no snapshot and no workspace needs.",
		Text: Lines(func(c *Collected) string {
			if c.Bytes == 0 && c.Objects == 0 {
				return "nothing to free\n"
			}
			return fmt.Sprintf("freed %s (%d objects)\n", BytesText(c.Bytes), c.Objects)
		}),
		Commands: []Command{{Group: "The store:", Use: "gc [--all]", Short: "Free space that nothing needs",
			Long: `Frees the disk space that no snapshot, no workspace and no undo needs. It also runs in
the background, and works on a full disk.`,
			Example: "  amberfs gc",
			Flags:   []Flag{{"all", "a", "also what only undo needs"}}}}}, (*upkeep).gc),
	op(Op{Name: "verify", Cost: CPUHeavy, Access: AccessStoreOwnerInMain,
		About: "Reads and checks everything in the store."}, (*upkeep).verify),
	op(Op{Name: "forget", Effect: Destroys, Cost: CPUHeavy, Access: AccessStoreOwnerInMain, Mutates: true,
		About: "Removes contents from snapshots, and erases their bytes.",
		Text:  Lines(ReceiptText),
		Tools: []Tool{{Names: [3]string{"snapshot_forget"}, Title: "Forget contents", OnlyInAll: true,
			About: "Remove files, or what regular expressions match, from all snapshots, and erase the bytes. It cannot be undone: make a dry run first.",
			Args:  "paths match secrets in now remotes dry_run"}}}, (*erasure).forget),
	op(Op{Name: "verify-forgotten", Cost: CPUHeavy, Access: AccessStoreOwnerInMain,
		About: "Searches the store for all that was forgotten.",
		Text:  Lines(ProofText)}, (*erasure).verify),
	op(Op{Name: "umount", Effect: Destroys, Cost: Cheap, Access: AccessSocket,
		About: "Unmounts. The daemon ends when everything is on disk."}, (*upkeep).umount),
}

var remoteOps = []*Op{
	op(Op{Name: "push", Effect: Sends, Cost: Cheap, Access: AccessWriter,
		CheckArgs: checkPushArgs, ControlFiles: ControlFiles{Line: &Line{File: "push", Args: "snapshots [remote]", Usage: `a snapshot, and perhaps a remote, as in: echo "SNAPSHOT [REMOTE]" > push`}, BriefResult: briefPushed},
		About: "Sends snapshots to a remote.",
		Text:  Lines(pushedLines),
		Tools: []Tool{{Names: [3]string{"snapshot_push"}, Title: "Push a snapshot",
			About: "Send a snapshot to a remote that the owner of the store added.", Args: "name=snapshots remote as"}},
		Commands: []Command{{Group: "Remotes:", Use: "push REMOTE SNAPSHOT... [--as NAME] [--force] [--full]", Short: "Send snapshots to a remote",
			Long: `Sends snapshots to REMOTE, a name from "amberfs remote add" or a URL. Only missing data
is sent. An interrupted push continues when it is run again.

If the name is in use there for another snapshot, push exits with status 4. An earlier
state of the same claimed fork is replaced, and kept as NAME.ID.`,
			Example: "  amberfs push team v1\n  amberfs push team latest --as nightly --force", Args: "remote snapshots...",
			Flags: []Flag{
				{"as", "", "use `NAME` as its name there"},
				{"force", "", "replace a snapshot with that name"},
				{"full", "", "send everything again"},
			}}}}, (*remotes).push),
	op(Op{Name: "handoff", Effect: Sends, Cost: CPUHeavy, Access: AccessStoreOwnerInMain,
		About: "Sends the present state to a remote, and returns a line that gives it to another machine.",
		Text:  Lines(handoffText),
		Tools: []Tool{{Names: [3]string{"workspace_handoff"}, Title: "Hand off the workspace", OnlyInAll: true,
			About: "Send the present state, without what the policy forgets, to a remote, and return a command that gives the same tree on another machine. Make a dry run first.",
			Args:  "remote expires times dry_run"}}}, (*remotes).handoff),
	op(Op{Name: "handoff-back", Effect: Destroys, Cost: ListMemory | GitMemory, Access: AccessStoreOwnerInMain, Mutates: true,
		About: "Merges what another machine sent back after a handoff.",
		Text:  Lines(func(done *HandedBack) string { return mergedLines(&done.PromoteResult) }),
		Tools: []Tool{{Names: [3]string{"workspace_handoff_back"}, Title: "Merge what came back", OnlyInAll: true,
			About: "Merge what another machine sent back after a handoff. Conflicts are listed, and then nothing is changed.",
			Args:  "id ours theirs merge dry_run"}}}, (*remotes).handoffBack),
	op(Op{Name: "pull", Effect: Adds, Cost: Cheap, Access: AccessStoreOwnerInMain, Mutates: true,
		About: "Copies snapshots of a remote into the store.",
		Text:  LinesOf(pulledLines),
		Commands: []Command{{Group: "Remotes:", Use: "pull REMOTE SNAPSHOT... [--as NAME]", Short: "Bring snapshots from a remote into the store",
			Long: `Copies snapshots of REMOTE, a name or a URL, into the store. An interrupted pull continues
when it is run again. The workspace does not change.`,
			Example: "  amberfs pull team v1\n  amberfs pull s3://bucket/team v1 --as theirs", Args: "remote snapshots...", ArgsText: "a REMOTE and at least one SNAPSHOT",
			Flags: []Flag{{"as", "", "use `NAME` as its name there"}}}}}, (*remotes).pull),
	op(Op{Name: "remotes", Cost: Cheap, Access: AccessStoreOwnerInMain,
		About: "Lists the registered remotes.",
		Text:  Lines(remoteLines),
		Commands: []Command{
			{Group: "Remotes:", Use: "remote", Short: "Manage remotes",
				Long: `A remote contains pushed snapshots:

  s3://BUCKET/PREFIX?endpoint=URL   an S3-compatible object store
  oci://HOST/REPOSITORY             an OCI registry
  file:///DIR                       a directory

Credentials come from AWS_*, ~/.aws and ~/.docker/config.json, in the environment of
"amberfs mount", or from a file like these two that ?credentials=FILE in the URL names.
They are not stored.`,
				Example:  "  amberfs remote add team 's3://snapshots/web?endpoint=https://s3.example.org'",
				ArgsText: "one of its commands: add, list, trust, remove, snapshots, rm, verify, gc"},
			{Parent: "remote", Use: "list", Short: "List remotes"},
		}}, (*remotes).listRemotes),
	op(Op{Name: "add-remote", Effect: Adds, Cost: Cheap, Access: AccessSocket,
		About: "Registers a remote, and sets it up if it is new.",
		Text:  Lines(func(done *AddedRemote) string { return fmt.Sprintf("remote %s added: %s\n", done.Name, done.URL) }),
		Commands: []Command{{Parent: "remote", Use: "add NAME URL [--recipient KEY]...", Short: "Add a remote",
			Long: `Registers the remote at URL as NAME. A new remote is probed first, and guarantees
that it does not provide are reported.

--recipient encrypts everything on a new remote. The service then sees sizes, times and
names only. AMBERFS_AGE_IDENTITY names the file that decrypts it. If the remote has
other keys later, nothing is sent until "amberfs remote remove" and another add.`,
			Example: `  amberfs remote add team s3://bucket/team
  amberfs remote add nas file:///mnt/nas/amberfs
  amberfs remote add hub oci://ghcr.io/me/workspaces --recipient age1...`,
			Args: "name url", ArgsText: "a NAME and a URL",
			Flags: []Flag{{"recipient=recipients", "", "encrypt to this age `KEY` (age1...)"}}}}}, (*remotes).addRemote),
	op(Op{Name: "trust-remote", Effect: Adds, Cost: Cheap, Access: AccessSocket,
		About: "Agrees to contact a remote that the store names.",
		Text:  Lines(func(done *Remote) string { return fmt.Sprintf("remote %s is trusted: %s\n", done.Name, done.URL) }),
		Commands: []Command{{Parent: "remote", Use: "trust REMOTE", Short: "Agree to contact a remote that came with the store",
			Long: `A store that another user made can name remotes that you did not add. Requests to them
would be signed with your credentials, so amberfs contacts none before this command.
"amberfs status" lists them.`,
			Args: "remote", ArgsText: "a REMOTE"}}}, (*remotes).trustRemote),
	op(Op{Name: "remove-remote", Effect: Destroys, Cost: Cheap, Access: AccessSocket,
		About:    "Forgets a remote. Nothing on the remote changes.",
		Text:     LinesOf(func(a RemoveRemote, _ *None) string { return fmt.Sprintf("remote %s removed\n", a.Name) }),
		Commands: []Command{{Parent: "remote", Use: "remove NAME", Short: "Forget a remote", Args: "name", ArgsText: "a NAME"}}}, (*remotes).removeRemote),
	op(Op{Name: "remote-snapshots", Cost: Cheap, Access: AccessSocket,
		About: "Lists the snapshots on a remote, newest first.",
		Text:  Lines(remoteSnapshotLines),
		Commands: []Command{{Parent: "remote", Use: "snapshots REMOTE", Short: "List the snapshots on a remote, newest first",
			Args: "remote", ArgsText: "a REMOTE"}}}, (*remotes).remoteSnapshots),
	op(Op{Name: "remove-pushed", Effect: Destroys, Cost: Cheap, Access: AccessSocket,
		About: "Deletes snapshots from a remote.",
		Text:  LinesOf(removedPushedLines),
		Commands: []Command{{Parent: "remote", Use: "rm REMOTE SNAPSHOT...", Short: "Delete snapshots from a remote",
			Long: `Deletes snapshots from a remote. "amberfs remote gc" frees what only they needed.`,
			Args: "remote names...", ArgsText: "a REMOTE and at least one SNAPSHOT"}}}, (*remotes).removePushed),
	op(Op{Name: "verify-remote", Cost: Cheap, Access: AccessSocket,
		About: "Checks that a remote has everything its snapshots need.",
		Text:  Lines(verifiedRemoteLines),
		Commands: []Command{{Parent: "remote", Use: "verify REMOTE [--deep]", Short: "Check the snapshots on a remote",
			Long: `Checks that REMOTE has everything that its snapshots need, with the right sizes. If
something is missing or damaged, it lists the snapshots and exits with status 7.`,
			Args: "remote", ArgsText: "a REMOTE", PrintsDamage: true,
			Flags: []Flag{{"deep", "", "also read and check every byte"}}}}}, (*remotes).verifyRemote),
	op(Op{Name: "gc-remote", Effect: Destroys, Cost: Cheap, Access: AccessSocket,
		About: "Frees what no snapshot on a remote needs, in several runs on different days.",
		Text: Lines(func(done *remote.Collected) string {
			return fmt.Sprintf("freed %s (%d objects); %d more wait for later runs\n", BytesText(done.Bytes), done.Removed, done.Waiting)
		}),
		Commands: []Command{{Parent: "remote", Use: "gc REMOTE", Short: "Free space on a remote",
			Long: `Frees what no snapshot on REMOTE needs. Run it once a day, for example from cron. Of
three runs, each at least a day after the other, the third deletes an object. Expired
snapshots are deleted too. A registry frees untagged data itself.`,
			Args: "remote", ArgsText: "a REMOTE"}}}, (*remotes).gcRemote),
}

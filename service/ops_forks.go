package service

import (
	"fmt"

	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/snapshot"
)

var forkOps = []*Op{
	op(Op{Name: "fork", Effect: Adds, Cost: Cheap, Access: AccessWriter, Mutates: true,
		CheckArgs: checkForkArgs,
		ReadsAll: func(ws *snapshot.Workspace, args any) bool {
			return ws.Forks().HidesPaths(args.(snapshot.ForkOptions).Hide)
		},
		About:        "Creates a fork of a snapshot or of the present state.",
		ControlFiles: ControlFiles{RunsInline: true, Waits: argsNameRemote, Line: &Line{File: "fork", Args: "snapshot name", Usage: `a snapshot and the fork, as in: echo "SNAPSHOT FORK" > fork`}},
		Text: Lines(func(f *Forked) string {
			return fmt.Sprintf("fork %s created: %s\n", f.Name, gitquote.ReadableName(f.Path))
		}),
		Tools: []Tool{
			{Names: [3]string{"fork_create", "", "branch"}, Title: "Create a fork",
				About: "Create a fork, a writable copy of a snapshot or of the present state. The answer has its path.", Args: "name snapshot ttl", MakesWorkspace: true},
			{Names: [3]string{"", "", "restore"}, Title: "Restore",
				About: "Create a new workspace from a ref. The present one stays as it is.", Args: "name snapshot", MakesWorkspace: true},
		},
		Commands: []Command{{Group: "Forks:", Use: "fork [[FORK/]SNAPSHOT|label:KEY=VALUE|REMOTE@SNAPSHOT] NAME [--ttl 1h] [--hide PATH]... [--read-only PATH]... [--as ACTOR]", Short: "Create or delete a fork",
			Long: `Creates the fork NAME: a writable copy of SNAPSHOT, or of the present state, at
.forks/NAME. Neither side sees the other's writes.

--discard also deletes the forks in it. --delete is refused if there are any.`,
			Example: `  amberfs fork v1 try-left
  amberfs fork try-right
  amberfs fork label:task=17 again --ttl 1h
  amberfs fork team@start box-18
  amberfs fork --delete try-right`,
			Args: "[snapshot] name", ArgsText: "perhaps a SNAPSHOT, and a NAME", Convert: convertFunc(convertFork),
			Flags: []Flag{
				{"delete=", "d", "delete the fork NAME; its last state becomes a snapshot"},
				{"discard=", "", "delete the fork NAME without a snapshot"},
				{"force=", "", "with --delete or --discard, also if programs run in it"},
				{"ttl", "", "delete the fork after this `TIME`: 30m, 1h, 7d"},
				{"hide", "", "`PATH`, or a pattern, does not exist in the fork"},
				{"hide-empty", "", "hidden files are empty"},
				{"read-only", "", "`PATH` cannot be changed"},
				{"as", "", "changes from a virtual machine or gVisor are by this `ACTOR`, not by NAME"},
			}}}}, (*forks).create, (*forks).resumeCreate),
	op(Op{Name: "forks", Cost: CPUHeavy,
		About: "Lists the forks of the workspace.",
		Text:  Rows(forkRows).markLong(), JSONField: "forks",
		Tools: []Tool{{Names: [3]string{"fork_list"}, Title: "List forks",
			About: "List the forks: name, base, time, snapshots, changed files and time to live."}},
		Commands: []Command{{Group: "Forks:", Use: "forks", Short: "List forks",
			Long: `Lists the forks: name, base, age, last actor, snapshots, changed files and the remaining
time to live.`,
			Example: "  amberfs forks"}}}, (*forks).list),
	op(Op{Name: "claim", Effect: Adds, Cost: Cheap, Access: AccessWriter, Mutates: true,
		CheckArgs: checkForkArgs,
		ReadsAll:  func(ws *snapshot.Workspace, _ any) bool { return ws.Forks().HidesPaths(nil) },
		About:     "Returns the fork with a label. If there is none, creates it. If from is a later state of the label on a remote, the fork gets it.",
		Text:      Rows(func(c *Claimed) [][]string { return [][]string{{gitquote.ReadableName(c.Path), c.Tier}} }),
		Tools: []Tool{{Names: [3]string{"workspace_claim"}, Title: "Claim a workspace",
			About: "Get the path of the fork with a label, or create it.", Args: "label from ttl"}},
		Commands: []Command{{Group: "Forks:", Use: "claim LABEL [--from SNAPSHOT|REMOTE@SNAPSHOT] [--ttl 1h]", Short: "Get the fork with a label, or create it",
			Long: `Prints the path of the fork LABEL, and how it was found:

  resumed    the fork existed
  newer      the fork existed or had ended, and got the state of --from, which continues it
  snapshot   a new fork, from the last state of an earlier fork with this label
  fresh      a new fork, from --from or from the present state

Concurrent claims of a label get the same fork. REMOTE@SNAPSHOT is resolved at most once
a minute. If the label was changed here and there, claim exits with status 8.`,
			Example: "  cd \"$(amberfs claim box-17 --from start --ttl 1h --json | jq -r .path)\"", Args: "label",
			Flags: []Flag{
				{"from", "", "begin a new fork with `SNAPSHOT` or REMOTE@SNAPSHOT. Default: the present state"},
				{"ttl", "", "delete the fork after this `TIME` without a claim: 30m, 1h, 7d"},
			}}}}, (*forks).claim),
	op(Op{Name: "rename-fork", Effect: Destroys, Cost: Cheap, Access: AccessChanger, Mutates: true,
		About:        "Renames a fork.",
		ControlFiles: ControlFiles{RunsInline: true}}, (*forks).rename, (*forks).resumeRename),
	op(Op{Name: "delete-fork", Effect: Destroys, Cost: Cheap, Access: AccessChanger, Mutates: true,
		About: "Deletes a fork, after a snapshot of its last state.",
		Text:  Lines(deletedForkLine),
		Tools: []Tool{{Names: [3]string{"fork_delete"}, Title: "Delete a fork",
			About: "Delete a fork. Its last state becomes a snapshot of the workspace, unless discard is set.", Args: "name discard force"}}}, (*forks).delete, (*forks).resumeDelete),
	op(Op{Name: "conflict", Cost: ListMemory | TextMemory | GitMemory, Access: AccessOwner,
		About: "Returns the sides of a file that changed in a fork and in the workspace."}, (*files).conflict),
	op(Op{Name: "merge", Effect: Destroys, Cost: ListMemory | GitMemory, Access: AccessOwner, Mutates: true,
		About: "Merges a fork's changes into the workspace.",
		Text:  Lines(mergedLines),
		Tools: []Tool{{Names: [3]string{"fork_merge"}, Title: "Merge a fork",
			About: "Merge what a fork changed into the workspace. Conflicts are listed, and then nothing is changed.",
			Args:  "fork ours theirs resolve merge keep dry_run"}},
		Commands: []Command{{Group: "Forks:", Use: "merge FORK [--keep PATH]... [--ours|--theirs|--prefer SIDE] [--merge] [--dry-run]", Aliases: []string{"promote"}, Short: "Bring a fork's changes into the workspace",
			Long: `Merges what the fork changed since its base into its parent. Text that both changed is
merged by lines. Conflicts are listed, and nothing is changed.

A branch of git that moved on both sides stays, and amberfs/FORK/BRANCH gets the commits of
the fork. --merge merges them, as "git merge" does. At a terminal, merge asks about branches
and conflicts.

The fork stays.`,
			Example: "  amberfs merge idea\n  amberfs merge idea --theirs", Args: "fork", PreferSides: [2]string{"workspace", "fork"}, AsksAboutConflicts: true,
			Flags: []Flag{
				{"keep", "", "leave `PATH` as it is; repeatable"},
				{"ours", "", "keep the workspace's version of conflicting paths"},
				{"theirs", "", "take the fork's version of conflicting paths"},
				{"merge", "", "merge a checked-out branch of git that moved on both sides"},
				{"dry-run", "n", "only list what would change"},
			}}}}, (*forks).merge, (*forks).resumeMerge),
	op(Op{Name: "actor", Effect: Adds, Cost: Cheap, Access: AccessWriter,
		About: "Registers the name of an actor for a process and its descendants.",
		Text:  Lines(func(done *Registered) string { return fmt.Sprintf("process %d is actor %s\n", done.PID, done.Name) }),
		Commands: []Command{{Group: "Mounting:", Use: "actor NAME [--pid PID]", Short: "Name the actor of a process's changes",
			Long: `Later changes of the calling process and its descendants are by the actor NAME. In a
fork, the name counts in that fork only.`,
			Example: "  amberfs actor alice\n  amberfs actor claude/4f2a --pid $PPID", Args: "name", ArgsText: "one NAME", Convert: convertFunc(convertActor),
			Flags: []Flag{{"pid", "", "the process `PID` instead of the caller"}}}}}, (*files).registerActor),
}

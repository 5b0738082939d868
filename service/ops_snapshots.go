package service

import (
	"fmt"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
)

var snapshotOps = []*Op{
	op(Op{Name: "snapshot", Effect: Adds, Cost: Cheap, Access: AccessWriter,
		ControlFiles: ControlFiles{RunsInline: true, Line: &Line{File: "create", Parse: parseCreate}},
		About:        "Takes a snapshot of the workspace.",
		Text:         LinesOf(createdLine),
		Tools: []Tool{{Names: [3]string{"snapshot_create", "snapshots_create", "snapshot"}, Title: "Create a snapshot",
			About:  "Take a snapshot of the workspace. It takes the same time for any size.",
			Preset: snapshot.CaptureOptions{Wait: true}, Args: "name description=message labels expires pinned if_changed"}},
		Commands: []Command{{Group: "Snapshots:", Use: "snapshot [NAME] [-m MESSAGE] [FLAG]...", Short: "Take a snapshot",
			Long: `Takes a snapshot named NAME, or cp-N without a NAME. Waits until it is stored, so that
it survives a power cut, and prints its id.`,
			Example: "  amberfs snapshot before-refactor -m \"all tests pass\"\n  amberfs snapshot try-1 --expires 24h --label agent=left",
			Preset:  snapshot.CaptureOptions{Wait: true}, Args: "[name]", ArgsText: "at most one NAME",
			Flags: []Flag{
				{"message", "m", "`MESSAGE` of the snapshot"},
				{"expires", "", "delete it after this `TIME`: 30m, 24h, 7d, 2w, or an RFC 3339 date"},
				{"label=labels", "", "add the label `KEY=VALUE`; repeatable"},
				{"no-wait=wait:false", "", "return at once, and print cp-N"},
				{"turn=kind:turn", "", "kind turn: an agent's turn, kept as the policy says"},
				{"if-changed", "", "take none if nothing differs from the newest one"},
				{"pin=pinned", "", "protect it from deletion"},
			}}}}, (*snapshots).take, (*snapshots).resumeTake),
	op(Op{Name: "list", Cost: ListMemory,
		About: "Lists the snapshots, newest first.",
		Text:  Rows(listRows).markLong(), JSONField: "snapshots",
		Tools: []Tool{{Names: [3]string{"snapshot_list", "snapshots_list"}, Title: "List snapshots",
			About: "List the snapshots, newest first: name, id, time and description.", Args: "limit since kind labels"}},
		Commands: []Command{{Group: "Snapshots:", Use: "list [FLAG]...", Aliases: []string{"ls"}, Short: "List snapshots, newest first",
			Long: `Lists the snapshots of the workspace, newest first: name, the first 12 digits of the
id ("-" until it is stored), time and message.

--turns lists turns: number, time, AGENT/SESSION, the agent's id of the message, prompt.`,
			UsesPager: true, Convert: convertFunc(convertList),
			Forms: map[string]Form{"turns": Rows(turnRows), "long": Rows((*Snapshots).LongRows)},
			Flags: []Flag{
				{"limit", "n", "only the newest `N`"},
				{"all=", "", "also snapshots that restores took first (kind pre-restore), and those after calls of tools (call)"},
				{"since", "", "only since this `TIME`: 2h, 7d, or a date (2026-01-31)"},
				{"kind", "", "only this `KIND`: manual, turn, call, actor, auto, pre-restore, fork, import, pull"},
				{"by", "", "only with changes of `ACTOR`"},
				{"label=labels", "", "only with the label `KEY=VALUE`; repeatable"},
				{"turns=", "", "agents' turns"},
				{"long=", "", "also show kind and pin, counts of changes (+/~/-) and labels"},
			}}}}, (*snapshots).list),
	op(Op{Name: "show", Cost: Cheap,
		About:        "Returns everything about one snapshot.",
		Text:         Fields(infoFields),
		ControlFiles: ControlFiles{Queries: []Query{{File: "info", Args: "name"}}},
		Tools:        []Tool{{Names: [3]string{"snapshot_show"}, Title: "Show a snapshot", About: "Show everything about one snapshot.", Args: "name"}},
		Commands: []Command{{Group: "Snapshots:", Use: "show NAME", Short: "Show a snapshot",
			Long: `Shows everything about a snapshot. NAME can also be cp-N, the first 8 or more digits of
an id, latest, undo or base.`,
			Example: "  amberfs show latest", Args: "name"}}}, (*snapshots).show),
	op(Op{Name: "size", Cost: ListMemory, Access: AccessOwner,
		About:        "Counts the files and bytes of a snapshot, or of a path in it.",
		Text:         Lines((*Sized).sizeText),
		ControlFiles: ControlFiles{Queries: []Query{{File: "size", Args: "name"}}},
		Tools:        []Tool{{Names: [3]string{"snapshot_size"}, Title: "Count files and bytes", Args: "name path"}},
		Commands: []Command{{Group: "Snapshots:", Use: "size [SNAPSHOT [PATH]]", Short: "Count the files and bytes of a snapshot",
			Example: "  amberfs size v1 src", Args: "[name] [path]"}}}, (*snapshots).size),
	op(Op{Name: "summaries", Cost: ListMemory | TextMemory, Access: AccessOwner,
		About: "Counts the files that snapshots changed."}, (*snapshots).summarize),
	op(Op{Name: "rename", Effect: Destroys, Cost: Cheap, Access: AccessChanger, Mutates: true,
		ControlFiles: ControlFiles{RunsInline: true},
		About:        "Renames a snapshot.",
		Text:         LinesOf(func(a Rename, _ *info.Info) string { return fmt.Sprintf("snapshot %s renamed to %s\n", a.From, a.To) }),
		Commands: []Command{{Group: "Snapshots:", Use: "rename A B", Aliases: []string{"mv"}, Short: "Rename snapshot A to B",
			Example: "  amberfs rename cp-7 v1", Args: "from to", ArgsText: "the present name A and the new name B"}}}, (*snapshots).rename, (*snapshots).resumeRename),
	op(Op{Name: "remove", Effect: Destroys, Cost: Cheap, Access: AccessChanger, Mutates: true,
		About:        "Deletes snapshots: all that are named or, if one is unknown, none.",
		ControlFiles: ControlFiles{RunsInline: true}, Text: Lines(removedLines),
		Tools: []Tool{{Names: [3]string{"snapshot_delete", "snapshots_delete"}, Title: "Delete a snapshot",
			About: "Delete a snapshot. Contents that only this snapshot has are lost.", Args: "name=names"}},
		Commands: []Command{{Group: "Snapshots:", Use: "rm NAME...", Short: "Delete snapshots",
			Long: `Deletes snapshots. If one name is unknown or protected, none is deleted. "amberfs undo"
restores them for a day (undo_seconds of the policy). Then their space is freed, or at
once by "amberfs gc --all".`,
			Example: "  amberfs rm v1 v2", Args: "names..."}}}, (*snapshots).remove, (*snapshots).resumeRemove),
	op(Op{Name: "compact", Effect: Destroys, Cost: CPUHeavy, Access: AccessChanger, Mutates: true,
		About: "Replaces several snapshots by one that contains all of their files, each in its newest version. Pinned snapshots stay.",
		Text:  Lines(compactedLines),
		Tools: []Tool{{Names: [3]string{"snapshot_compact", "snapshots_compact"}, Title: "Compact snapshots",
			About: "Make one snapshot of the newest version of each path of several snapshots. These are deleted unless they are pinned.",
			Args:  "names name description=message"}},
		Commands: []Command{{Group: "Snapshots:", Use: "compact NAME NAME... --name NAME [-m MESSAGE]", Short: "Combine several snapshots into one",
			Long: `Makes one snapshot that contains all files of the named snapshots, each in its newest
version, and deletes those that are not pinned. If the policy protects one, nothing
changes.`,
			Example: "  amberfs compact mon tue wed --name first-half", Args: "names...",
			Flags: []Flag{{"name", "", "`NAME` of the new snapshot"}, {"message", "m", "`MESSAGE` of the new snapshot"}}}}}, (*snapshots).compact),
	op(Op{Name: "du", Cost: CPUHeavy, Access: AccessStoreOwnerInMain,
		About: "Returns the bytes on disk that deleting each snapshot and fork would free, and deleting all of them.",
		Text:  Rows(duRows),
		Commands: []Command{{Group: "The store:", Use: "du [SNAPSHOT]...", Short: "Show the space that only one snapshot or fork uses",
			Long: `Shows the bytes on disk that deleting each snapshot and fork, or each given SNAPSHOT,
would free. The last line is for all of these snapshots.`,
			Example: "  amberfs du\n  amberfs du v1 v2", Args: "[names...]"}}}, (*snapshots).diskUsage),
	op(Op{Name: "pin", Effect: Destroys, Cost: Cheap, Access: AccessChanger,
		About: "Protects snapshots from deletion, or ends the protection.",
		Text:  Lines(pinnedLines),
		Commands: []Command{
			{Group: "Snapshots:", Use: "pin NAME...", Short: "Protect snapshots from deletion",
				Long: `Protects snapshots from deletion by users, expiry and policy, until "amberfs unpin".
If one name is unknown, nothing changes.`,
				Example: "  amberfs pin v1", Preset: Pin{Pin: true}, Args: "names..."},
			{Group: "Snapshots:", Use: "unpin NAME...", Short: "Allow deletion of pinned snapshots", Example: "  amberfs unpin v1", Args: "names..."},
		}}, (*snapshots).pin),
	op(Op{Name: "restore", Effect: Destroys, Cost: ListMemory, Access: AccessOwner, Mutates: true,
		ControlFiles: ControlFiles{Line: &Line{File: "restore", Args: "name [paths...]", Usage: `the snapshot to restore, as in: echo "SNAPSHOT [PATH...]" > restore`}, BriefResult: briefRestored},
		About:        "Makes the workspace, or some paths of it, equal to a snapshot.",
		Text:         Lines(restoredLines),
		Tools: []Tool{
			{Names: [3]string{"snapshot_restore"}, Title: "Restore a snapshot",
				About: "Make the workspace, or some paths, equal to a snapshot. snapshot_undo undoes it.", Args: "name paths keep dry_run"},
			{Names: [3]string{"snapshot_undo"}, Title: "Undo the last restore", About: "Undo the last restore, revert or merge.",
				Preset: snapshot.RestoreOptions{Name: "undo"}, Args: "keep dry_run"},
		},
		Commands: []Command{{Group: "Snapshots:", Use: "restore NAME [PATH]... [--keep PATH]... [--dry-run]", Short: "Make the workspace equal to a snapshot",
			Long: `Makes the workspace, or the given PATHs, equal to the snapshot NAME, and removes newer
files.

Open files and shells stay usable. Files restored by PATH get the present time as mtime, so
that build tools rebuild them.

A restore of the whole workspace includes .git: later commits leave their branch.
restore_keeps in the policy is a --keep for every such restore.

./PATH or -- PATH without a NAME is "amberfs revert PATH".`,
			Example: `  amberfs restore v1
  amberfs restore v1 go.mod internal/
  amberfs restore v1 --keep .git
  amberfs restore ./src/parse.go`,
			Args: "name [paths...]", ArgsText: "a NAME and perhaps PATHs", Convert: convertFunc(convertRestore),
			PathHint: "to restore the path %[1]s from the newest snapshot in which it differs, use `amberfs restore ./%[1]s`",
			Flags: []Flag{
				{"keep", "", "leave `PATH` as it is; repeatable"},
				{"dry-run", "n", "only print what would change"},
			}}}}, (*snapshots).restore, resumeRestore),
	op(Op{Name: "revert", Effect: Destroys, Cost: ListMemory, Access: AccessOwner, Mutates: true,
		About: "Restores one file or directory.",
		Text:  Lines(restoredLines),
		Tools: []Tool{{Names: [3]string{"snapshot_revert", "snapshots_revert"}, Title: "Revert a file",
			About: "Restore one path from a snapshot, or from the newest one in which it differs. It is deleted if the snapshot does not have it.",
			Args:  "path name"}},
		Commands: []Command{{Group: "Snapshots:", Use: "revert PATH [NAME]", Short: "Restore one path from the newest snapshot in which it differs",
			Long: `Restores PATH from the snapshot NAME, or from the newest snapshot in which it differs. If
PATH did not exist then, it is removed.`,
			Example: "  amberfs revert src/parse.go", Args: "path [name]"}}}, (*snapshots).revert, resumeRestore),
	op(Op{Name: "restore-hunk", Effect: Destroys, Cost: ListMemory | TextMemory, Access: AccessOwner, Mutates: true,
		About: "Restores the lines of one hunk of a comparison, if they are still the same."}, (*snapshots).restoreHunk),
}

package service

var fileOps = []*Op{
	op(Op{Name: "diff", Cost: ListMemory | TextMemory, Access: AccessOwner, Output: Text,
		About:        "Returns the changes from one snapshot to another, or to now.",
		Text:         Lines(diffText).markLong(),
		ControlFiles: ControlFiles{Queries: []Query{{File: "diff", Preset: Diff{Format: "patch"}, Args: "a [b]"}, {File: "stat", Preset: Diff{Format: "name-status"}, Args: "a [b]"}}},
		Tools: []Tool{
			{Names: [3]string{"snapshot_diff"}, Title: "Show differences",
				About:  "Show what changed from one snapshot to another, or to now, as a patch.",
				Preset: Diff{Format: "patch"}, Args: "name=a other=b paths"},
			{Names: [3]string{"snapshot_changes", "snapshots_changes"}, Title: "List changed files",
				About:  "List the files that changed from one snapshot to another, or to now: A, M, D, T or R and the path.",
				Preset: Diff{Format: "name-status"}, Args: "name=a other=b paths"},
		},
		Commands: []Command{{Group: "Snapshots:", Use: "diff [A [B]|A..B] [FLAG]... [-- PATH...]", Short: "Show what changed between snapshots, or since one",
			Long: `Shows the changes from snapshot A to snapshot B or to now, as a unified diff that "git
apply" accepts. A is by default the latest snapshot or, with --fork, the fork's base.
PATHs after "--" limit the diff.`,
			Example: `  amberfs diff v1
  amberfs diff v1 v2 --stat
  amberfs diff v1 -- internal/ go.mod`,
			Args: "[a] [b]", ArgsText: "perhaps snapshots A and B, then -- before PATHs", DashField: "paths", Convert: convertFunc(convertDiff),
			PathHint: "paths come after --: amberfs diff -- %s",
			Flags: []Flag{
				{"fork=", "", "what the fork `NAME` changed"},
				{"by", "", "only files that `ACTOR` changed"},
				{"stat=format:stat", "", "changed lines for each file"},
				{"name-status=format:name-status", "", "only the status and path of each file"},
				{"binary", "", "binary files as a patch that git apply accepts"},
			}}}}, (*files).diff),
	op(Op{Name: "changes", Cost: ListMemory | TextMemory, Access: AccessOwner,
		About: "Lists the files that differ from one snapshot to another, or to now."}, (*files).changes),
	op(Op{Name: "changed", Effect: Adds, Cost: ListMemory | TextMemory, Access: AccessOwner,
		About: "Reports what changed since the last look, and takes a snapshot if something did.",
		Text:  LinesOf(changedLines),
		Tools: []Tool{{Names: [3]string{"workspace_changed"}, Title: "Show what the last command changed",
			About:  "Report what changed since the last call of this tool: deleted and overwritten files first. Call it after a command with side effects.",
			Preset: Changed{ForAgent: true}, Args: "since"}},
		Commands: []Command{{Group: "Snapshots:", Use: "changed [--since LAST|SNAPSHOT] [--for-agent]", Short: "Show what changed since the last look",
			Long: `Prints what changed since the last look, or since SNAPSHOT: deleted and overwritten files
first, then renames, permissions, additions by directory, and the command that undoes
it. Prints nothing if nothing changed.

If something changed, it takes a snapshot of kind call. Each actor has a last look of
its own.`,
			Example: "  amberfs changed\n  amberfs changed --since v1",
			Flags:   []Flag{{"since", "", "compare with `SNAPSHOT`, and take no snapshot; LAST is the default"}, {"for-agent", "", "about 1,200 characters at most, besides deleted and overwritten files"}}}}}, (*files).changed),
	op(Op{Name: "hunks", Cost: TextMemory, Access: AccessOwner,
		About: "Returns the changed lines of one file, a part at a time."}, (*files).hunks),
	op(Op{Name: "file", Cost: CPUHeavy, Access: AccessOwner, Output: Bytes,
		About: "Returns the bytes of a file, now or in a snapshot."}, (*files).read),
	op(Op{Name: "undo-by", Effect: Destroys, Cost: ListMemory | GitMemory, Access: AccessOwner, Mutates: true,
		About: "Undoes what one actor changed and keeps the changes of all others.",
		Text:  Lines(undoneLines),
		Tools: []Tool{{Names: [3]string{"workspace_undo"}, Title: "Undo one actor's work",
			About: "Undo what one actor changed and keep what all others changed. If others changed the same lines later, the paths are listed and nothing is changed.",
			Args:  "by since paths keep ours theirs dry_run"}},
		Commands: []Command{{Group: "Snapshots:",
			Use:   "undo [--keep PATH]... [--dry-run] [--turn N | --op N | --by ACTOR [--since T] [--ours|--theirs|--prefer SIDE] [PATH]...]",
			Short: "Undo the last operation, an agent's turns, or what one actor changed",
			Long: `Undoes the last operation of "amberfs ops". If that is a restore, a merge or an import,
a second undo undoes the first. Deleted snapshots and forks are restored for a day
(undo_seconds of the policy).

--op N undoes the operation N, and keeps what changed since.

--turn N restores the state before that turn of "amberfs list --turns".

--by ACTOR undoes what ACTOR changed, and keeps what all others changed, as git revert
does. Text that others changed later is merged by lines. Conflicts are listed, and then
nothing is changed. PATHs limit the undo.`,
			Example: "  amberfs undo --dry-run\n  amberfs undo --by claude/4f2a --since 2h",
			Args:    "[paths...]", Convert: convertFunc(convertUndo), PreferSides: [2]string{"workspace run fork", "undo"},
			Flags: []Flag{
				{"keep", "", "leave `PATH` as it is; repeatable"},
				{"turn=", "", "restore the state before the turn `N`"},
				{"op=", "", "undo the operation `N` of \"amberfs ops\""},
				{"dry-run", "n", "only print what would change"},
				{"yes=", "y", "undo an apply without a question"},
				{"by", "", "undo what `ACTOR` changed"},
				{"since", "", "only changes since `T`: a snapshot, 2h, 7d, or a date"},
				{"ours", "", "leave paths in conflict as they are"},
				{"theirs", "", "make paths in conflict what they were before ACTOR"},
			}}}}, (*files).undoBy),
	op(Op{Name: "blame", Cost: ListMemory | TextMemory, Access: AccessOwner,
		About: "Shows for each line of a file the snapshot, actor and command that it came with.",
		Text:  Rows(blameRows).markLong(),
		Tools: []Tool{{Names: [3]string{"snapshot_blame"}, Title: "Blame a file",
			About: "Show for each line of a file its snapshot, actors, command, time and number.", Args: "path"}},
		Commands: []Command{{Group: "Snapshots:", Use: "blame PATH", Short: "Show which change each line of a file came with",
			Long: `Prints for each line of PATH: the first snapshot with it, the actors
that changed the file then, their last command, its time, the line's number and its
text. "now" is the present state, "base" what the workspace began with.`,
			Example: "  amberfs blame src/parse.go", Args: "path", UsesPager: true}}}, (*history).blame),
	op(Op{Name: "actors", Cost: CPUHeavy,
		About: "Lists the actors that changed the workspace.",
		Text:  Rows(actorRows),
		Commands: []Command{{Group: "Snapshots:", Use: "actors", Short: "List the actors that changed the workspace",
			Long: `Lists the actors that changed the workspace, the last one first: name, number of
snapshots with its changes, first and last time.`}}}, (*files).actors),
	op(Op{Name: "ops", Cost: ListMemory, Access: AccessOwner,
		About: "Lists the operations that changed what users see, newest first.",
		Text:  Rows(opRows).markLong(), JSONField: "ops",
		Commands: []Command{{Group: "Snapshots:", Use: "ops [-n N]", Short: "List the operations that can be undone",
			Long: `Lists restores, merges, imports, applies, deletions, renames and changes of the policy,
newest first: number, time, operation, its object, who asked for it, and whether it was
undone.`,
			Example: "  amberfs ops",
			Flags:   []Flag{{"limit", "n", "at most `N`"}}}}}, (*history).ops),
	op(Op{Name: "undo-op", Effect: Destroys, Cost: ListMemory | TextMemory | GitMemory, Access: AccessOwner, Mutates: true,
		About: "Undoes one operation, and keeps what changed since.",
		Text:  Lines(undoneOpLines)}, (*history).undoOp),
	op(Op{Name: "history", Cost: ListMemory, Access: AccessOwner,
		About: "Lists the snapshots in which a path was created, modified or deleted.",
		Text:  Rows(historyRows).markLong(),
		Tools: []Tool{{Names: [3]string{"snapshot_history", "snapshots_history"}, Title: "Show the history of a file",
			About: "List the snapshots in which a path was created, modified or deleted, newest first.", Args: "path all"}},
		Commands: []Command{{Group: "Snapshots:", Use: "history PATH", Short: "List the snapshots in which a path changed",
			Long: `Lists the snapshots in which PATH was created, modified or deleted, newest first:
action, snapshot, time, size and message. "now" means that PATH
changed since the newest snapshot.`,
			Example: "  amberfs history src/parse.go", Args: "path", UsesPager: true,
			Flags: []Flag{{"all", "a", "also list snapshots in which it did not change"}}}}}, (*history).path),
	op(Op{Name: "events", Cost: ListMemory, Access: AccessOwner, Output: Events, Follows: func(args any) bool { return args.(Log).Follow },
		About: "Returns the events of the workspace, oldest first.",
		Text:  Lines(eventLines).markLong(),
		Tools: []Tool{{Names: [3]string{"workspace_log"}, Title: "Show the events",
			About: "List events, newest first: time, action, path, and the program.", Args: "path since action command limit"}},
		Commands: []Command{{Group: "Snapshots:", Use: "log [FLAG]... [PATH]", Short: "Show events",
			Long: `Shows the events of the workspace, oldest first: time, action, path, and the command
and process that caused it. With PATH, only events at or below it.`,
			Example: "  amberfs log -n 20\n  amberfs log --since 2h --action deleted src/",
			Args:    "[path]", ArgsText: "at most one PATH", UsesPager: true, Convert: convertFunc(convertLog),
			Flags: []Flag{
				{"follow", "f", "continue as events happen"},
				{"lines=limit", "n", "only the last `N`"},
				{"since", "", "only since this `TIME`: 2h, 7d, or a date"},
				{"action", "", "only this `ACTION`: created, modified, deleted, renamed, restored, captured, ..."},
				{"by", "", "only events of `ACTOR`"},
				{"command", "", "only commands that begin with `COMMAND`"},
			}}}}, (*history).events),
}

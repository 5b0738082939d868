package service

var fileOps = []*Op{
	op(Op{Name: "diff", Cost: Allocates, Charges: Lists | Texts, Access: Owner, Output: Text,
		About: "Returns the changes from one snapshot to another, or to now.",
		Text:  Lines(differences), Pages: true,
		Queries: []Query{{File: "diff", Preset: Diff{Format: "patch"}, Args: "a [b]"}, {File: "stat", Preset: Diff{Format: "name-status"}, Args: "a [b]"}},
		Tools: []Tool{
			{Names: [3]string{"snapshot_diff"}, Title: "Show differences",
				About:  "Show what changed from one snapshot to another, or to now, as a patch.",
				Preset: Diff{Format: "patch"}, Args: "name=a other=b paths"},
			{Names: [3]string{"snapshot_changes", "snapshots_changes"}, Title: "List changed files",
				About:  "List the files that changed from one snapshot to another, or to now: A, M, D, T or R and the path.",
				Preset: Diff{Format: "name-status"}, Args: "name=a other=b paths"},
		}}, (*Service).diff),
	op(Op{Name: "changes", Cost: Allocates, Charges: Lists | Texts, Access: Owner,
		About: "Lists the files that differ from one snapshot to another, or to now."}, (*Service).changes),
	op(Op{Name: "changed", Effect: Adds, Cost: Allocates, Charges: Lists | Texts, Access: Owner,
		About: "Reports what changed since the last look, and takes a snapshot if something did.",
		Text:  LinesOf(changedLines),
		Tools: []Tool{{Names: [3]string{"workspace_changed"}, Title: "Show what the last command changed",
			About:  "Report what changed since the last call of this tool: deleted and overwritten files first. Call it after a command with side effects.",
			Preset: Changed{ForAgent: true}, Args: "since"}},
		Commands: []Command{{Group: "Snapshots:", Use: "changed [--since LAST|SNAPSHOT] [--for-agent]", Short: "Show what changed since the last look",
			Long: `Prints what changed since the last look, or since SNAPSHOT: deleted and overwritten files
first, then renames, permissions, additions by directory, and the command that undoes
it. Prints nothing if nothing changed.

A look at which something changed takes a snapshot of kind call. Looks of different
actors do not count for each other.`,
			Example: "  amberfs changed\n  amberfs changed --since v1",
			Flags:   []Flag{{"since", "", "compare with `SNAPSHOT`, and take no snapshot; LAST is the default"}, {"for-agent", "", "at most some 1,200 characters beside deleted and overwritten files"}}}}}, (*Service).changed),
	op(Op{Name: "hunks", Cost: Allocates, Charges: Texts, Access: Owner,
		About: "Returns the changed lines of one file, a part at a time."}, (*Service).hunks),
	op(Op{Name: "file", Cost: Compares, Access: Owner, Output: Bytes,
		About: "Returns the bytes of a file, now or in a snapshot."}, (*Service).file),
	op(Op{Name: "undo-by", Effect: Destroys, Cost: Allocates, Charges: Lists | Gits, Access: Owner, Mutates: true,
		About: "Undoes what one actor changed and keeps the changes of all others.",
		Text:  Lines(undoneLines),
		Tools: []Tool{{Names: [3]string{"workspace_undo"}, Title: "Undo one actor's work",
			About: "Undo what one actor changed and keep what all others changed. If others changed the same lines later, the paths are listed and nothing is changed.",
			Args:  "by since paths keep ours theirs dry_run"}}}, (*Service).undoBy),
	op(Op{Name: "blame", Cost: Allocates, Charges: Lists | Texts, Access: Owner,
		About: "Shows for each line of a file the snapshot, actor and command that it came with.",
		Text:  Rows(blameRows), Pages: true,
		Tools: []Tool{{Names: [3]string{"snapshot_blame"}, Title: "Blame a file",
			About: "Show for each line of a file its snapshot, actors, command, time and number.", Args: "path"}},
		Commands: []Command{{Group: "Snapshots:", Use: "blame PATH", Short: "Show which change each line of a file came with",
			Long: `Prints for each line of PATH, separated by tabs: the first snapshot with it, the actors
that changed the file then, their last command, its time, the line's number and its
text. "now" is the present state, "base" what the workspace began with.`,
			Example: "  amberfs blame src/parse.go", Args: "path", Pager: true}}}, (*Service).blame),
	op(Op{Name: "actors", Cost: Compares,
		About: "Lists the actors that changed the workspace.",
		Text:  Rows(actorRows),
		Commands: []Command{{Group: "Snapshots:", Use: "actors", Short: "List the actors that changed the workspace",
			Long: `Lists the actors that changed the workspace, the last one first: name, number of
snapshots with its changes, first and last time, separated by tabs.`}}}, (*Service).actors),
	op(Op{Name: "history", Cost: Allocates, Charges: Lists, Access: Owner,
		About: "Lists the snapshots in which a path was created, modified or deleted.",
		Text:  Rows(historyRows), Pages: true,
		Tools: []Tool{{Names: [3]string{"snapshot_history", "snapshots_history"}, Title: "Show the history of a file",
			About: "List the snapshots in which a path was created, modified or deleted, newest first.", Args: "path all"}},
		Commands: []Command{{Group: "Snapshots:", Use: "history PATH", Short: "List the snapshots in which a path changed",
			Long: `Lists the snapshots in which PATH was created, modified or deleted, newest first:
action, snapshot, time, size and message, separated by tabs. "now" means that PATH
changed since the newest snapshot.`,
			Example: "  amberfs history src/parse.go", Args: "path", Pager: true,
			Flags: []Flag{{"all", "a", "also list snapshots in which it did not change"}}}}}, (*Service).history),
	op(Op{Name: "events", Cost: Allocates, Charges: Lists, Access: Owner, Output: Events,
		About: "Returns the events of the workspace, oldest first.",
		Text:  Lines(eventLines), Pages: true,
		Tools: []Tool{{Names: [3]string{"workspace_log"}, Title: "Show the events",
			About: "List events, newest first: time, action, path, and the program.", Args: "path since action command limit"}}}, (*Service).events),
}

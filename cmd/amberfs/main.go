// With updatemaxprocs=0, the Go runtime does not read the number of processors each second, so that
// an idle mount wakes no processor.
//
//go:debug updatemaxprocs=0

// Package main is the command amberfs, which mounts a file system with snapshots
// and works with them.
//
// A command (cmd_*.go) parses its arguments, calls one operation of package service, and prints the
// answer. It finds its mount by the path of its working directory (internal/locate) and sends no
// request to the file system, so a mount that hangs does not block it. It calls the daemon over the
// socket in the store or, if the socket cannot be reached, through the mount (service/client).
//
// The daemon (internal/daemon) and the MCP server (mcp_*.go) are the same program. The MCP server calls
// the daemon as a command does.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/search"
	"github.com/amberfs/amberfs/fusefs/takeover/keeper"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/service"
)

func main() {
	// Set the name of the process: a process that was started through /proc/self/exe has the name exe.
	_ = os.WriteFile("/proc/self/comm", []byte("amberfs"), 0)
	os.Exit(runApp(newApp(os.Stdin, os.Stdout, os.Stderr), os.Args))
}

func runApp(a *app, argv []string) int {
	a.argv = argv[1:]
	root := newRoot(a)
	a.argv = joinReadOnlyPaths(mountHelperArgs(root, argv))
	root.SetArgs(a.argv)
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()

	err := root.ExecuteContext(ctx)
	if err != nil && !a.parsed {
		a.json = a.json || wantsJSON(argv[1:])
		if _, ok := errors.AsType[*errs.Error](err); !ok {
			err = errs.Fail(errs.Invalid, "%s", strings.TrimSuffix(err.Error(), "\n")).WithHint("see `amberfs help`")
		}
	}

	return endCommand(ctx, a, err)
}

// wantsJSON reports whether a command line that could not be parsed has --json.
func wantsJSON(args []string) bool {
	if n := slices.Index(args, "--"); n >= 0 {
		args = args[:n]
	}
	return slices.Contains(args, "--json")
}

// endCommand closes the outputs, prints the error of the command, and returns the exit status.
func endCommand(ctx context.Context, a *app, err error) int {
	a.closeOutput()
	if werr := a.out.err; err == nil && werr != nil {
		err = errs.Fail(errs.ScriptKind(werr), "cannot write to the standard output: %w", werr)
	}
	if err == nil {
		return 0
	}

	if status, ok := errors.AsType[exitCode](err); ok {
		return int(status)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errs.Fail(errs.Failed, "interrupted")
	}

	e := errs.ErrorOf(err)
	exit := e.Kind.ExitStatus()
	if a.json {
		_ = a.printJSON(failureOutput{Error: e.Msg, Hint: e.Hint, Kind: e.Kind, Exit: exit})
	}

	fmt.Fprintln(a.stderr, "amberfs: "+gitquote.EscapeControls(e.Error(), "\n\t"))

	return exit
}

type failureOutput struct {
	OK    bool      `json:"ok"`
	Error string    `json:"error"`
	Hint  string    `json:"hint,omitempty"`
	Kind  errs.Kind `json:"kind"`
	Exit  int       `json:"exit"`
}

// exitCode is an error that only has an exit status, such as the status of the program of `run`.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit status %d", int(c)) }

// mountHelperArgs returns the arguments of the program. If mount(8) started the program as the helper of a file
// system, it changes them to arguments of the command `mount`. mount(8) starts a helper directly, as
// /sbin/mount.fuse.amberfs, or through /sbin/mount.fuse, as `amberfs STORE MOUNTPOINT -o …`.
func mountHelperArgs(root *cobra.Command, argv []string) []string {
	args := argv[1:]
	helper := strings.HasPrefix(filepath.Base(argv[0]), "mount.")
	if !helper {
		// mount.fuse always passes -o. Without -o, the arguments may be a misspelt command, which is an error.
		helper = len(args) >= 4 && !strings.HasPrefix(args[0], "-") && !isCommand(root, args[0]) &&
			!strings.HasPrefix(args[1], "-") && args[2] == "-o"
	}
	if !helper {
		return args
	}

	out := []string{"mount"}

	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case (arg == "-t" || arg == "-N") && i+1 < len(args):
			i++
		case arg == "-s" || arg == "-n" || arg == "-v" || arg == "-w":
		case arg == "-r":
			out = append(out, "-o", "ro")
		default:
			out = append(out, arg)
		}
	}

	return out
}

func isCommand(root *cobra.Command, name string) bool {
	c, _, err := root.Find([]string{name})
	return err == nil && c != root || name == "help" || name == "completion" || strings.HasPrefix(name, "__complete")
}

// newRoot returns the root command. If the command line names the command of an operation, the root has no commands of
// other operations.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "amberfs",
		Short: "A filesystem with instant snapshots and undo",
		Long: `amberfs mounts a workspace with instant snapshots, restores and forks.

"mkdir .snapshots/NAME" or "amberfs snapshot NAME" takes a snapshot, whatever the
size of the tree. "amberfs restore NAME" restores it. Commands other than mount and
run work from inside a mount, or with -C DIR.

Without a command, it prints what "amberfs status" prints.`,
		Version:                    versionText(),
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		Args:                       cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noSuchCommandError(cmd, args[0])
			}

			err := showStatus(cmd.Context(), a)
			if err == nil && !a.json {
				a.printf("\nall commands: amberfs help\n")
			}

			return err
		},
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			a.parsed = true
			a.command = commandText(cmd)
			if a.quiet && !a.json {
				a.stdout = io.Discard
			}
		},
	}

	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if word := firstWord(a.argv); cmd == root && word != "" && !isCommand(root, word) {
			return noSuchCommandError(root, word) // word is a misspelt command, whose flags the root command does not have
		}
		return errs.Fail(errs.Invalid, "%v", err).WithHint("see `%s`", helpCommandLine(cmd))
	})

	root.PersistentFlags().StringVarP(&a.dir, "directory", "C", "", "use the workspace that contains `DIR`, and resolve paths there")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON")
	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "print errors only")
	root.PersistentFlags().BoolVarP(&a.verbose, "verbose", "v", false, "list every path")
	add := func(group string, c *cobra.Command) {
		c.GroupID = group
		c.DisableFlagsInUseLine = true // the field Use has the flags already
		c.SuggestFor = strings.Fields(foreignNames[c.Name()])
		root.AddCommand(c)
	}

	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Mounting:", []*cobra.Command{mountLikeCommand(a, startMount), umountCommand(a), upgradeCommand(a), runCommand(a), runsCommand(a), demoCommand(a), mcpCommand(a), hookCommand(a)}},
		{"Snapshots:", []*cobra.Command{bisectCommand(a), uiCommand(a)}},
		{"Forks:", []*cobra.Command{worktreeCommand(a), exploreCommand(a)}},
		{"Import and export:", []*cobra.Command{exportCommand(a), importCommand(a), applyCommand(a), refreshCommand(a)}},
		{"Remotes:", []*cobra.Command{handoffCommand(a)}},
		{"The store:", []*cobra.Command{verifyCommand(a), forgetCommand(a), doctorCommand(a)}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, c := range group.commands {
			add(group.title, c)
		}
	}

	root.AddCommand(versionCommand(a), exitStatusHelp(),
		hiddenCommand(sandbox.RunInnerCommand, 0, func(ctx context.Context, _ []string) error { return a.statusError(sandbox.RunInner(ctx, a.noteText)) }),
		hiddenCommand(sandbox.MainInForkCommand, 4, func(ctx context.Context, argv []string) error { return a.statusError(sandbox.MainInFork(ctx, argv)) }),
		hiddenCommand(sandbox.MainInRootCommand, 0, func(ctx context.Context, _ []string) error { return a.statusError(sandbox.MainInRoot(ctx, a.noteText)) }),
		termsCommand(a),
		hiddenCommand(keeper.Command, 0, func(context.Context, []string) error { return a.statusError(keeper.Resume(daemon.LogLine)) }),
		hiddenCommand(daemon.NudgeCommand, 3, func(_ context.Context, argv []string) error { return daemon.Nudge(a.stdin, argv[0], argv[1], argv[2]) }),
		hiddenCommand(worktreeHookCommand, 1, func(ctx context.Context, argv []string) error { return handleWorktreeHook(ctx, a, argv) }),
		hiddenCommand(search.JanitorCommand, 2, func(ctx context.Context, argv []string) error { return discardForks(ctx, a, argv) }))

	addOperationCommands(a, root, add)
	addCompletions(a, root)
	root.CompletionOptions.HiddenDefaultCmd = true
	refuseUnknownTopics(root)

	return root
}

// refuseUnknownTopics makes `amberfs help WORD` fail if WORD is not a command. Cobra alone would print the general
// help.
func refuseUnknownTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()

	for _, help := range root.Commands() {
		if help.Name() != "help" {
			continue
		}
		run := help.Run
		help.Run, help.RunE = nil, func(cmd *cobra.Command, topic []string) error {
			found, rest, err := root.Find(topic)
			if len(topic) > 0 && (err != nil || found == root || len(rest) > 0) {
				return noSuchCommandError(root, strings.Join(topic, " "))
			}

			run(cmd, topic)
			return nil
		}
	}
}

// noSuchCommandError returns the error for a word that is not a command.
func noSuchCommandError(root *cobra.Command, word string) error {
	e := errs.Fail(errs.Invalid, "no such command: %q", word)
	if subcommand, ok := subcommandNames[word]; ok {
		return e.WithHint("did you mean %q?", subcommand)
	}
	if like := root.SuggestionsFor(word); len(like) > 0 {
		return e.WithHint("did you mean %q?", cmp.Or(service.NearestName(word, like), like[0]))
	}

	return e.WithHint("see `amberfs help`")
}

// firstWord returns the first argument that is not a flag, "" if there is none.
func firstWord(argv []string) string {
	for i := 0; i < len(argv); i++ {
		switch arg := argv[i]; {
		case strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.HasSuffix(arg, "C") || arg == "--directory":
			i++
		case arg == "--":
			return ""
		case !strings.HasPrefix(arg, "-"):
			return arg
		}
	}
	return ""
}

// subcommandNames has, for the names of commands of other programs, the corresponding subcommands of amberfs.
var subcommandNames = map[string]string{"ps": "runs", "prune": "runs prune"}

// foreignNames has, for commands of amberfs, the names of the corresponding commands of other programs.
var foreignNames = map[string]string{
	"snapshot": "checkpoint commit create save take", "restore": "checkout reset rollback rewind", "rm": "delete destroy remove",
	"umount": "unmount", "history": "versions", "status": "info", "fork": "branch clone", "list": "snapshots",
}

// hiddenCommand returns a command that only this program itself starts.
func hiddenCommand(name string, minArgs int, run func(ctx context.Context, argv []string) error) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true, Args: cobra.MinimumNArgs(minArgs),
		RunE: func(cmd *cobra.Command, argv []string) error { return run(cmd.Context(), argv) },
	}
}

// exitStatusHelp returns the page of the help about exit statuses. For cobra it is a command that does nothing.
func exitStatusHelp() *cobra.Command {
	var list strings.Builder
	for _, s := range errs.ExitStatuses() {
		fmt.Fprintf(&list, "  %d  %s\n", s.Status, s.Description)
	}

	return &cobra.Command{
		Use:   "exit-status",
		Short: "Exit statuses",
		Long: "The exit status of every command:\n\n" + list.String() + `
"amberfs run" ends with the status of its program: 128+N if signal N killed it, 126
if it could not be executed, 127 if it was not found.`,
	}
}

// argumentCountCheck returns a check of the number of arguments. If max is negative, there is no maximum. usage
// describes the arguments in the error.
func argumentCountCheck(min, max int, usage string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, got []string) error {
		if len(got) >= min && (max < 0 || len(got) <= max) {
			return nil
		}
		e := errs.Fail(errs.Invalid, "%s takes %s", cmd.CommandPath(), usage)
		return e.WithHint("see `%s`", helpCommandLine(cmd))
	}
}

// helpCommandLine returns the command line that prints the help of a command.
func helpCommandLine(cmd *cobra.Command) string {
	return "amberfs help" + strings.TrimPrefix(cmd.CommandPath(), "amberfs")
}

// commandText returns the user's command line for the event log, cut after 200 bytes.
func commandText(cmd *cobra.Command) string {
	parts := append([]string{cmd.CommandPath()}, cmd.Flags().Args()...)
	s := strings.Join(parts, " ")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "")
	}
	return s
}

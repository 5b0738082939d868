package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/env"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/internal/pattern"
	"github.com/amberfs/amberfs/remote/handoff"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

type handoffOptions struct {
	service.Handoff
	isReturn, noSession bool
	hideArgs            []string
	mergeOptions        service.HandoffBack
}

func handoffCommand(a *app) *cobra.Command {
	o := &handoffOptions{}
	cmd := &cobra.Command{
		Use:   "handoff [REMOTE] | handoff LINE PATH | handoff --back [ID]",
		Short: "Give the tree, with everything in it, to another machine",
		Long: `In a workspace or an ordinary directory, sends the present state to REMOTE, a name or a
URL, and prints one line. Default: the remote of the last handoff, or the only one.

On the other machine, that line and a PATH write the same tree to PATH, which must be
absent or empty: uncommitted and ignored files, .git with its branch and index, modes
and times, and the transcript of the agent's session for "claude --resume". It needs
credentials for the remote, and neither root nor FUSE. Interrupted, run it again.

The changes return in two steps: there, "amberfs handoff --back" in PATH sends them; then
here, "amberfs handoff --back" in the workspace or directory merges them. Conflicts are listed,
and nothing is changed: decide with --ours or --theirs.

The line has the key that everything is encrypted to: keep it secret. It works once,
within 24 hours. What the policy forgets, and --hide and .amberhide name, stays here and is
listed. Only what the last handoff did not send is sent, and only what PATH's user has not
received before is fetched.`,
		Example: `  amberfs handoff s3://bucket/team
  amberfs handoff --expires 1h --times 2 --hide '*.pem'
  amberfs handoff 's3://bucket/team/handoff/5f0c...#1b2c3d4e:AGE-SECRET-KEY-1...' ~/project
  amberfs handoff --back`,
		Args: argumentCountCheck(0, 2, "perhaps a REMOTE; a LINE and a PATH; or --back and perhaps an ID"),
		RunE: func(cmd *cobra.Command, argv []string) error { return handOff(cmd.Context(), a, o, argv) },
	}

	cmd.Flags().BoolVar(&o.isReturn, "back", false, "send back what was received, or merge what came back")
	cmd.Flags().StringVar(&o.Expires, "expires", "", "the line expires after this `TIME`: 30m, 24h, 7d. Default: 24h")
	cmd.Flags().IntVar(&o.Times, "times", 1, "the line works `N` times")
	cmd.Flags().StringArrayVar(&o.hideArgs, "hide", nil, "leave out `PATH`, or a pattern, of a directory; repeatable")
	cmd.Flags().BoolVar(&o.noSession, "no-session", false, "leave out the agent's transcript")
	cmd.Flags().BoolVarP(&o.DryRun, "dry-run", "n", false, "change and send nothing, print what would be")
	cmd.Flags().BoolVar(&o.mergeOptions.Ours, "ours", false, "with --back, keep this side's version of conflicting paths")
	cmd.Flags().BoolVar(&o.mergeOptions.Theirs, "theirs", false, "with --back, take the other machine's version of conflicting paths")
	cmd.Flags().BoolVar(&o.mergeOptions.Merge, "merge", false, "with --back, merge a checked-out branch of git that moved on both sides")

	return cmd
}

// handOff sends or receives a handoff, sends it back or merges it, depending on the words and options of the command
// line.
func handOff(ctx context.Context, a *app, o *handoffOptions, words []string) error {
	if len(words) > 0 {
		if line, ok := handoff.ParseLine(words[0]); ok {
			if len(words) < 2 || o.isReturn {
				return errs.Fail(errs.Invalid, "a LINE needs a PATH").WithHint("name a directory that does not exist or is empty")
			}
			return receiveHandoff(ctx, a, line, words[1])
		}
		if strings.Contains(words[0], "#") || len(words) > 1 {
			return errs.Fail(errs.Invalid, "this is not a line that `amberfs handoff` printed").WithHint("copy the whole line, with its quotes")
		}
	}

	word := strings.Join(words, "")
	if o.isReturn {
		if r, err := receiptHere(a); err != nil || r != nil && (word == "" || word == r.ID) {
			return errors.Join(err, sendBack(ctx, a, r, o.DryRun))
		}
		o.mergeOptions.ID, o.mergeOptions.DryRun = word, o.DryRun
		return mergeReturned(ctx, a, o.mergeOptions)
	}
	if o.mergeOptions != (service.HandoffBack{}) {
		return errs.Fail(errs.Invalid, "--ours, --theirs and --merge need --back")
	}

	o.Remote = word
	done, err := sendHandoff(ctx, a, o)
	if err != nil {
		return err
	}

	return a.print(done, func() {
		if done.Line != "" {
			fmt.Fprintln(a.out, done.Line+" PATH") // printed also with -q
		}
		a.noteText(strings.ReplaceAll(service.HandoffNote(done), "\n", "\n\t"))
	})
}

// sendHandoff hands off the workspace or the ordinary directory in which the command runs.
func sendHandoff(ctx context.Context, a *app, o *handoffOptions) (*service.HandedOff, error) {
	p, err := a.location()
	if errors.Is(err, locate.ErrNotMounted) {
		return sendDirectory(ctx, a, o)
	}
	if err != nil {
		return nil, err
	}
	if len(o.hideArgs) > 0 {
		return nil, errs.Fail(errs.Invalid, "--hide is for directories").WithHint(`in a workspace, the policy names what is left out: echo '{"forget": ["*.pem"]}' | amberfs policy -`)
	}

	c, err := a.openClient(ctx, p)
	if err != nil {
		return nil, err
	}
	defer c.Close()

	root, _ := p.Root()
	var done service.HandedOff

	return &done, callHandoff(ctx, a, o, c, []*client.Client{c}, root, &done)
}

// callHandoff calls the operation Handoff. Unless o.noSession is set, it adds an agent session: the newest one of the
// workspaces or, if they have none, the newest one of the directory root.
func callHandoff(ctx context.Context, a *app, o *handoffOptions, c *client.Client, workspaces []*client.Client, root string, result *service.HandedOff) error {
	if !o.noSession {
		if err := o.addSession(ctx, a, workspaces, root); err != nil {
			return err
		}
	}

	bar := a.newProgress()
	defer bar.done()

	return c.Do(ctx, o.Handoff, client.Streams{Progress: bar.show}, result)
}

// sendDirectory hands off an ordinary directory. It makes a run of the directory. The run keeps the state that was
// handed off.
func sendDirectory(ctx context.Context, a *app, o *handoffOptions) (*service.HandedOff, error) {
	dir, err := a.commandDir()
	if err != nil {
		return nil, err
	}

	k := &keptRun{a: a, dir: dir, restrictions: &restrictions{hideArgs: o.hideArgs}, command: []string{runs.HandoffCommand}}
	if err := k.makeStore(ctx); err != nil {
		return nil, err
	}

	var done service.HandedOff
	err = runFinder(a).WithStore(ctx, k.store, func(main *client.Client) (err error) {
		var p policy.Policy
		if err := main.Do(ctx, service.Policy{}, client.Streams{}, &p); err != nil {
			return err
		}
		k.forkOptions.Hide = append(k.forkOptions.Hide, p.Forget...)

		all, err := runs.List(ctx, main, k.dir, k.store)
		if err != nil {
			return err
		}
		if err := k.makeFork(ctx, main, all); err != nil {
			return err
		}
		defer func() {
			if err != nil || o.DryRun {
				err = errors.Join(err, k.deleteFork(ctx))
			}
		}()

		if err := k.saveState(ctx, service.RunKept); err != nil {
			return err
		}

		var workspaces []*client.Client
		for _, r := range all {
			if c, err := k.openClient(ctx, r.Name); err == nil { // a run may have been removed since it was listed
				defer c.Close()
				workspaces = append(workspaces, c)
			}
		}
		o.Fork = k.name

		return callHandoff(ctx, a, o, main, workspaces, k.dir, &done)
	})
	if err != nil {
		return nil, err
	}

	return &done, k.addHiddenAndNoteSecrets(ctx, &done)
}

// addHiddenAndNoteSecrets adds the hidden paths, which the run does not have, to result.LeftOut. It prints the names of
// handed-off files that look like secrets.
func (k *keptRun) addHiddenAndNoteSecrets(ctx context.Context, result *service.HandedOff) error {
	if k.hidden.Paths != nil {
		hidden, links, err := hostdir.FindHidden(ctx, k.dir, k.hidden, nil)
		if err != nil {
			return err
		}
		result.LeftOut = slices.Concat(result.LeftOut, hidden, links)
	}

	found := slices.DeleteFunc(findSecrets(k.dir, k.hidden, maxSecretEntries), func(name string) bool { return slices.Contains(result.LeftOut, name) })
	if len(found) > 0 {
		k.a.note("named like secrets, and handed off: %s\n\tleave them out with --hide, or lines of %s", gitquote.ListNames(found), hideFile)
	}

	return nil
}

// sessionIDPattern matches the ids of agent sessions, which are part of the names of transcript files.
var sessionIDPattern = pattern.New(`^[A-Za-z0-9_-]{1,128}$`)

// maxTranscriptBytes is the maximum size in bytes of a compressed transcript.
const maxTranscriptBytes = 11 << 20

// addSession sets o.Session and o.Transcript. It takes the session from the label of the newest snapshot of a turn
// in the workspaces. If there is no such snapshot, it takes the newest session that Claude Code has for the
// directory root.
func (o *handoffOptions) addSession(ctx context.Context, a *app, workspaces []*client.Client, root string) error {
	var newest info.Info
	for _, c := range workspaces {
		var turns service.Snapshots
		if err := c.Do(ctx, service.List{Limit: 1, Kind: info.KindTurn}, client.Streams{}, &turns); err != nil {
			return err
		}
		for _, t := range turns.Snapshots {
			if t.Created.After(newest.Created) {
				newest = t
			}
		}
	}

	session, file := newest.Labels["session"], ""
	if sessionIDPattern().MatchString(session) {
		file = newestFile(filepath.Join(claudeProjectsDir(), "*", session+".jsonl"))
	} else {
		file = newestFile(filepath.Join(claudeProjectDir(root), "*.jsonl"))
	}
	if file == "" {
		return nil
	}

	text, err := os.ReadFile(file)
	if err != nil {
		return errs.Fail(errs.ScriptKind(err), "the transcript: %w", err).WithHint("leave it out with --no-session")
	}

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(text); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if packed.Len() > maxTranscriptBytes {
		a.note("%s is too large, and is left out", quote(file))
		return nil
	}

	o.Session, o.Transcript = strings.TrimSuffix(filepath.Base(file), ".jsonl"), packed.Bytes()

	return nil
}

// newestFile looks for the regular files that match a pattern, and returns the one that was modified last, "" if
// there is none.
func newestFile(pattern string) (newest string) {
	var newestInfo os.FileInfo
	found, _ := filepath.Glob(pattern) // Glob fails only for a malformed pattern
	for _, name := range found {
		if st, err := os.Lstat(name); err == nil && st.Mode().IsRegular() && (newestInfo == nil || st.ModTime().After(newestInfo.ModTime())) {
			newest, newestInfo = name, st
		}
	}
	return newest
}

// claudeProjectsDir returns the directory with the transcripts of Claude Code.
func claudeProjectsDir() string {
	home, _ := os.UserHomeDir() // without a home directory no transcript is found
	return filepath.Join(cmp.Or(env.Get("CLAUDE_CONFIG_DIR"), filepath.Join(home, ".claude")), "projects")
}

var nonProjectNameChar = pattern.New(`[^A-Za-z0-9]`)

// claudeProjectDir returns the directory with the transcripts of the Claude Code sessions in dir.
func claudeProjectDir(dir string) string {
	return filepath.Join(claudeProjectsDir(), nonProjectNameChar().ReplaceAllString(dir, "-"))
}

// mergeReturned merges the returned snapshot of a handoff into the workspace or the ordinary directory in which
// the command runs.
func mergeReturned(ctx context.Context, a *app, req service.HandoffBack) error {
	p, err := a.location()
	if errors.Is(err, locate.ErrNotMounted) {
		return applyReturned(ctx, a, req)
	}
	if err != nil {
		return err
	}

	var done service.HandedBack
	if err := a.call(ctx, p, req, &done); err != nil {
		return err
	}

	return a.print(&done, func() { a.printf("%s", service.OpOf(req).Text.Text(req, &done)) })
}

// applyReturned applies the returned snapshot of a handoff to an ordinary directory. At a terminal, it asks the
// user first.
func applyReturned(ctx context.Context, a *app, req service.HandoffBack) error {
	store, ok := runsStoreHere(a)
	if !ok {
		return errs.Fail(errs.NotExist, "nothing was handed off from here, and nothing was received here").WithHint("go to the directory, or name it with -C DIR")
	}

	o := hostdir.ApplyOptions{DryRun: req.DryRun, Merge: req.Merge}
	var err error
	if o.ConflictRule, err = threeway.RuleOf(req.Ours, req.Theirs); err != nil {
		return err
	}

	return runFinder(a).WithStore(ctx, store, func(main *client.Client) error {
		bar := a.newProgress()
		defer bar.done()

		var returned service.HandedBack
		req.Fetch, req.DryRun = true, false
		if err := main.Do(ctx, req, client.Streams{Progress: bar.show}, &returned); err != nil {
			return err
		}
		bar.done()

		ask := askNever
		if a.canAsk() && !o.DryRun {
			ask = askForApply
		}
		if err := applyRun(ctx, a, returned.Fork, "", "", ask, o); err != nil || o.DryRun {
			return err
		}

		return main.Do(ctx, service.HandoffBack{ID: returned.ID, Done: true}, client.Streams{}, nil)
	})
}

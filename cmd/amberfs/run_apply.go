package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
)

// The values of --apply.
const (
	applyAsk = "ask"
	applyYes = "yes"
)

// carryBack is the end of `run --apply`.
type carryBack struct {
	a   *app
	how string // a value of --apply
	dir string
	// unfinished: neither were the changes carried, nor did the user decline.
	unfinished bool
	err        error
}

// run shows what changed and, if that is wanted, carries it back. It is called
// while the daemon of c serves.
func (b *carryBack) run(c sandbox.Config) {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	var done bool
	if done, b.err = b.carry(ctx, c); ctx.Err() != nil && b.err != nil {
		b.err = fail.New(fail.Failed, "interrupted")
	}
	b.unfinished = !done
}

// carry reports whether there is nothing left to do.
func (b *carryBack) carry(ctx context.Context, c sandbox.Config) (done bool, err error) {
	a := b.a
	conn, err := client.Open(ctx, client.Target{Store: c.Store, Workspace: c.Fork, Command: c.Text})
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if b.how == applyAsk {
		plan, err := a.apply(ctx, conn, b.dir, "", gitbridge.ApplyOptions{DryRun: true})
		if err != nil {
			return false, a.printConflicts(plan, err)
		}
		fmt.Fprint(a.stderr, b.planned(plan))
		if plan.Changed == 0 {
			if a.json {
				return true, a.printJSON(plan)
			}
			return true, nil
		}
		if yes, err := b.ask(ctx, conn, plan.Changed); err != nil || !yes {
			return err == nil, err
		}
	}
	applied, err := a.apply(ctx, conn, b.dir, "", gitbridge.ApplyOptions{})
	if err != nil {
		return false, a.printConflicts(applied, err)
	}
	for _, s := range applied.Skipped {
		a.note("%s: %s", quote(s.Path), s.Reason)
	}
	return true, b.print(applied)
}

// print shows what was applied.
func (b *carryBack) print(applied *gitbridge.Applied) error {
	if b.a.json {
		return b.a.printJSON(applied)
	}
	b.a.note("%s", strings.TrimSuffix(b.a.appliedLines(applied), "\n"))
	return nil
}

// noteKept says how to go on with a store that was not applied.
func (b *carryBack) noteKept(c sandbox.Config) {
	again := "amberfs run "
	if c.Fork != "" {
		again += "--fork " + c.Fork + " "
	}
	text := fmt.Sprintf("what %s did is kept in %s\n\tapply it with:  %s%s -- amberfs apply %s", c.Command[0], c.Store, again, word(c.Store), word(b.dir))
	if c.Temp != "" {
		text += "\n\tremove it with: rm -r " + word(c.Temp)
	}
	b.a.note("%s", text)
}

// word quotes a path for a shell.
func word(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:,@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// noteRepository warns about a directory that shares a repository with others, or is
// only a part of one.
func (a *app) noteRepository(dir string) {
	if dir == "" {
		return
	}
	st, err := os.Lstat(filepath.Join(dir, ".git"))
	switch {
	case err == nil && !st.IsDir():
		a.note("%s is a linked worktree or a submodule: commits made in it go to the repository that its .git names, at once and without --apply", quote(dir))
	case err != nil:
		for above := filepath.Dir(dir); above != "/" && above != "."; above = filepath.Dir(above) {
			if _, err := os.Lstat(filepath.Join(above, ".git")); err == nil {
				a.note("%s is a part of the repository %s, and git does not work in it; for that use --from %s", quote(dir), quote(above), word(above))
				return
			}
		}
	}
}

// planned lists what would be applied, with its kind.
func (b *carryBack) planned(plan *gitbridge.Applied) string {
	if plan.Changed == 0 {
		return "amberfs: nothing changed in " + quote(b.dir) + "\n"
	}
	var text strings.Builder
	kinds := map[string]string{"created": "A", "modified": "M", "deleted": "D"}
	paths, inGit := b.a.withoutGit(plan.Paths)
	for i, p := range paths {
		if i == maxPrinted && !b.a.verbose {
			fmt.Fprintf(&text, "and %d more\n", len(paths)-i)
			break
		}
		fmt.Fprintf(&text, "%s\t%s\n", kinds[p.Action], quote(p.Path))
	}
	if inGit > 0 {
		fmt.Fprintf(&text, "and %d below .git\n", inGit)
	}
	for _, p := range plan.Paths {
		if p.Action != "deleted" && executes(p.Path) {
			fmt.Fprintf(&text, "careful, other programs execute this: %s\n", quote(p.Path))
		}
	}
	return text.String()
}

// executes reports whether git, a shell or an editor executes a file because of its path.
func executes(path string) bool {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		last := i == len(parts)-1
		switch part {
		case ".git":
			if !last && (parts[i+1] == "hooks" || parts[i+1] == "config" || parts[i+1] == "config.worktree") {
				return true
			}
		case ".vscode", ".idea", ".husky", ".devcontainer":
			return true
		case ".envrc", ".gitattributes":
			return last
		}
	}
	return false
}

// ask asks the user, who may look at the differences before.
func (b *carryBack) ask(ctx context.Context, conn *client.Client, n int) (bool, error) {
	a := b.a
	if !isTerminal(a.stdin) || !isTerminal(a.stderr) {
		return false, fail.New(fail.Failed, "not a terminal: cannot ask").
			WithHint("use --apply=yes")
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(os.Stdin); s.Scan(); {
			lines <- s.Text()
		}
	}()
	for {
		fmt.Fprintf(a.stderr, "apply %s to %s? [y]es  [n]o, discard  [d]iff: ", plural(n, "change", "changes"), quote(b.dir))
		var line string
		select {
		case line = <-lines:
		case <-ctx.Done():
			return false, ctx.Err()
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return true, nil
		case "n", "no":
			return false, nil
		case "d", "diff":
			err := conn.Do(ctx, service.Diff{A: "base"}, client.Exchange{Out: a.stderr}, nil)
			if err != nil {
				return false, err
			}
		case "":
			fmt.Fprintln(a.stderr)
			return false, fail.New(fail.Failed, "nothing was applied")
		}
	}
}

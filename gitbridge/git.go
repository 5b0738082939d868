package gitbridge

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/amberfs/amberfs/archive"
	"github.com/amberfs/amberfs/gitbridge/gitdir"
)

// A GitError is a git command that failed.
type GitError struct {
	Command string // the git command and its arguments, without the options before them
	Stderr  string // the error output of git, without prefixes and hints
	Err     error
}

func (e *GitError) Error() string {
	return "git " + e.Command + ": " + cmp.Or(e.Stderr, e.Err.Error())
}

func (e *GitError) Unwrap() error { return e.Err }

// repoVars are the environment variables that override the repository, index or object store of the
// arguments, or that change the meaning of paths and answers. They are not passed on to git. All other
// variables of the user are passed on (identity, SSH command, GIT_CONFIG_COUNT…).
var repoVars = []string{
	"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
	"GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_QUARANTINE_PATH",
	"GIT_REPLACE_REF_BASE", "GIT_NO_REPLACE_OBJECTS", "GIT_IMPLICIT_WORK_TREE", "GIT_INTERNAL_SUPER_PREFIX",
	"GIT_ATTR_SOURCE", "GIT_DEFAULT_HASH", "GIT_CEILING_DIRECTORIES", "GIT_CONFIG",
	"GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS",
}

// environment returns the environment of this process without repoVars. git's messages are in English,
// because this package compares some of them.
func environment(extra ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(repoVars, name) || isLocale(kv)
	})
	env = append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0",
		"GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none") // git never fetches a missing object

	return append(env, extra...)
}

func isLocale(kv string) bool {
	return strings.HasPrefix(kv, "LC_") || strings.HasPrefix(kv, "LANG=") || strings.HasPrefix(kv, "LANGUAGE=")
}

// userLocale returns variables that restore the user's locale, for git calls that run filters: a filter
// is a program of the user.
func userLocale() []string {
	set := slices.DeleteFunc(os.Environ(), func(kv string) bool { return !isLocale(kv) })
	return append([]string{"LC_ALL="}, set...)
}

// fixedSettings are options of every git call. Hooks and the file system monitor are programs of the
// repository, so they are not run. Objects are compressed, so that the author of a workspace cannot
// choose the bytes of a file that git writes.
var fixedSettings = []string{"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false",
	"-c", "core.looseCompression=1", "-c", "pack.compression=-1",
	"-c", "core.safecrlf=false", "-c", "safe.bareRepository=all", "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "advice.objectNameWarning=false"}

// gitCommand prepares a git call in dir. When ctx ends, git receives SIGTERM, so that it can remove its
// temporary files.
func gitCommand(ctx context.Context, dir string, env []string, args ...string) *exec.Cmd {
	all := append([]string(nil), fixedSettings...)
	if dir != "" {
		// With -C, git itself changes to dir. With Cmd.Dir, the child would change to dir before exec.
		// Until exec, a thread of this process waits for the child, and the garbage collector cannot
		// stop that thread. If this process serves the mount of dir, the child and this process would
		// wait for each other forever.
		all = append(all, "-C", dir)
	}

	cmd := exec.CommandContext(ctx, "git", append(all, args...)...)
	cmd.Dir = "/"
	cmd.Env = environment(env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Second
	return cmd
}

// runGit runs git in dir and returns the output of git, also after an error. If git failed, the error is a
// *GitError.
func runGit(ctx context.Context, dir string, env []string, stdin io.Reader, args ...string) ([]byte, error) {
	cmd := gitCommand(ctx, dir, env, args...)
	var out, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &stderr
	if err := cmd.Run(); err != nil {
		return out.Bytes(), gitError(ctx, args, stderr.String(), err)
	}

	return out.Bytes(), nil
}

// Git runs git in dir, an absolute path in a repository, and returns its output without the last line
// end. Git runs no program that the configuration names. No filters run either, so files have the bytes
// that the repository stores.
func Git(ctx context.Context, dir string, args ...string) (string, error) {
	filters, err := withoutFilters(ctx, dir)
	if err != nil {
		return "", err
	}
	out, err := runGit(ctx, dir, nil, nil, append(filters, args...)...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// withoutFilters returns the options of git that turn all configured filters off.
func withoutFilters(ctx context.Context, dir string) (options []string, err error) {
	out, err := runGit(ctx, dir, nil, nil, "config", "--name-only", "-z", "--get-regexp", `^filter\.`)
	if err != nil && gitdir.ExitCode(err) != 1 { // git exits with 1 if there are no filters
		return nil, err
	}

	for key := range splitNUL(string(out)) {
		if strings.Contains(key, "=") {
			return nil, fmt.Errorf("%s: the configuration of git has a filter with = in its name: %s", dir, key)
		}
		value := ""
		if strings.HasSuffix(key, ".required") {
			value = "false"
		}
		options = append(options, "-c", key+"="+value)
	}

	return options, nil
}

// splitNUL returns the texts in an output of git -z, which end with NULs. It leaves out empty texts.
func splitNUL(out string) iter.Seq[string] {
	return strings.FieldsFuncSeq(out, func(r rune) bool { return r == 0 })
}

func gitError(ctx context.Context, args []string, stderr string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("git is not installed: install it, or put it on the PATH")
	}
	return &GitError{Command: strings.Join(subcommand(args), " "), Stderr: errorText(stderr), Err: err}
}

// subcommand drops the options that stand before the name of the git command.
func subcommand(args []string) []string {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if args[0] == "-c" {
			args = args[1:]
		}
		args = args[1:]
	}
	return args
}

// errorText returns the error output of git on one line, without prefixes, warnings and hints.
func errorText(stderr string) string {
	var lines []string
	for _, l := range strings.Split(stderr, "\n") {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "hint:") || strings.HasPrefix(l, "warning:") ||
			strings.HasPrefix(l, "fast-import: dumping crash report") {
			continue
		}

		l = strings.TrimPrefix(strings.TrimPrefix(l, "fatal: "), "error: ")
		lines = append(lines, l)
	}

	return strings.Join(lines, "; ")
}

// process is a git command that reads requests and writes answers while it runs. It leads a process
// group, and terminate ends the whole group: fast-import starts another git process for its last step.
type process struct {
	ctx    context.Context
	cmd    *exec.Cmd
	args   []string
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
	ended  bool // the command was waited for
}

func startGit(ctx context.Context, dir string, env []string, args ...string) (p *process, err error) {
	p = &process{ctx: ctx, cmd: gitCommand(ctx, dir, env, args...), args: args}
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Cancel = p.terminate
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		p.in, err = p.cmd.StdinPipe()
	}
	if err != nil {
		return nil, fmt.Errorf("starting git: %w", err)
	}

	p.out = bufio.NewReaderSize(out, 64<<10)
	if err := p.cmd.Start(); err != nil {
		return nil, gitError(ctx, args, "", err)
	}

	return p, nil
}

func (p *process) terminate() error {
	err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// wait closes the command's input and waits until the command ends.
func (p *process) wait() error {
	p.ended = true
	p.in.Close()
	_, _ = io.Copy(io.Discard, p.out)
	if err := p.cmd.Wait(); err != nil {
		return gitError(p.ctx, p.args, p.stderr.String(), err)
	}
	return nil
}

// abort ends the command after the error err, and returns the cause of the error. If the command's death
// caused err (EPIPE or the end of the output), this is the command's own error. Otherwise it is the error of
// ctx, if ctx has ended, or else err.
func (p *process) abort(err error) error {
	_ = p.terminate() // an error is ignored: it means that the command has ended already
	waitErr := p.wait()
	broken := errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, archive.ErrTruncated)
	if broken && waitErr != nil {
		return waitErr
	}
	if p.ctx.Err() != nil {
		return p.ctx.Err()
	}

	return err
}

// close ends the command, unless wait or abort has done so.
func (p *process) close() {
	if !p.ended {
		_ = p.abort(context.Canceled)
	}
}

// exchange calls send, which writes requests to the command, and calls answer for each of the given number of
// answers, without the byte delim at their ends.
func (p *process) exchange(answers int, delim byte, send func() error, answer func(i int, text string)) error {
	// git answers while it reads. Without a goroutine, git and exchange would wait for each other when both
	// pipes are full.
	sent := make(chan error, 1)
	go func() { sent <- send() }()

	for i := range answers {
		text, err := p.out.ReadString(delim)
		if err != nil {
			return errors.Join(p.abort(err), <-sent)
		}
		answer(i, text[:len(text)-1])
	}

	if err := <-sent; err != nil {
		return p.abort(err)
	}

	return nil
}

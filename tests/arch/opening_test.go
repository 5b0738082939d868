package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// What another party may have made (a store, a remote, a repository, a quarantine) is
// opened by internal/vfs.Root: nothing outside of it, no links, no FIFOs and devices,
// and for writing only files with one name. These calls have none of that.
var opening = map[string][]string{
	"os":      {"Open", "OpenFile", "Create", "ReadFile", "WriteFile", "OpenRoot", "OpenInRoot"},
	"unix":    {"Open", "Openat", "Openat2", "Creat"},
	"syscall": {"Open", "Openat", "Creat"},
}

// opensOther says which files may call them all the same, and why.
var opensOther = map[string]string{
	"cas/index/dir.go":                  "the folder of the index, by O_NOFOLLOW, and a mark in it once all of it was checked",
	"cas/index/tables.go":               "the manifest of the index, once prepare found regular files with one name only",
	"fusefs/ids.go":                     "/proc",
	"fusefs/mount.go":                   "a device of the kernel",
	"fusefs/server.go":                  "/sys",
	"fusefs/points.go":                  "a directory that a test names, in no ordinary build",
	"fusefs/takeover/keeper/stuck.go":   "/proc",
	"fusefs/takeover/keeper/upgrade.go": "/dev/null",
	"service/socket.go":                 "the directory that the user names, for its socket",
	"remote/encrypt.go":                 "the user's own keys",

	"internal/scratch/scratch.go": "a temporary directory of this user, by O_NOFOLLOW",
	"snapshot/storedir/lock.go":   "/proc",
	"internal/mounts/mounts.go":   "/proc",
	"internal/process/process.go": "/proc",
	"remote/backend/http.go":      "a file that the user's environment names",
	"remote/known/trust.go":       "the user's own state directory",
	"remote/image/archive.go":     "an archive that the user names, as a client",
	"remote/image/source.go":      "a layout that the user names, as a client",
	"service/client/mount.go":     "the mount, as a client",

	// A working tree is walked by descriptors, each opened beneath the one above with
	// O_NOFOLLOW, and files with O_NONBLOCK; of a user's tree many have hard links.
	"hostdir/write_attrs.go":          "a working tree",
	"hostdir/host.go":                 "a working tree",
	"hostdir/plan_others.go":          "/proc",
	"hostdir/elsewhere.go":            "the git directory of a working tree",
	"gitbridge/git_config.go":         "a temporary directory that this process has made",
	"gitbridge/git_sides.go":          "a temporary directory that this process has made",
	"gitbridge/gitdir/commit.go":      "the receiving git directory, and a temporary directory of its own",
	"gitbridge/gitdir/copy.go":        "a temporary directory that this process has made",
	"internal/plainfile/plainfile.go": "any file, with O_NONBLOCK and up to a size",
	"gitbridge/gitdir/lock.go":        "the lock of the receiving git directory, without following links",
	"gitbridge/gitdir/receive.go":     "the receiving git directory",
	"gitbridge/gitdir/scratch.go":     "a temporary directory that this process has made",
	"gitbridge/gitdir/staged.go":      "a temporary directory that this process has made",
	"gitbridge/gitdir/state.go":       "the receiving git directory",
	"hostdir/write_stage.go":          "a working tree",
	"hostdir/lock.go":                 "the user's own state directory, by O_NOFOLLOW",
	"hostdir/read.go":                 "a working tree",
	"hostdir/read_open.go":            "a working tree",
	"hostdir/hidden.go":               "a working tree, whose files are not opened",
	"gitbridge/quarantine.go":         "a folder that this process has made, and the objects of the repository, by os.Root",
	"gitbridge/repo.go":               "the store's own repository, by os.Root, once all of it was checked",
	"gitbridge/worktree.go":           "a temporary directory that this process has made",
}

// TestOpeningOfOthersFiles: a call in another file has to be one of vfs.Root, or be
// added above with its reason.
func TestOpeningOfOthersFiles(t *testing.T) {
	used := map[string]bool{}
	folders := []string{"archive", "cas", "diff", "fusefs", "gitbridge", "hostdir", "internal", "remote", "service", "snapshot", "stream"}
	for _, s := range sources(t) {
		if s.test || !slices.Contains(folders, folder(s.pkg)) || strings.HasPrefix(s.file, "internal/vfs/") {
			continue
		}
		for _, call := range openings(t, s.file) {
			if used[s.file] = true; opensOther[s.file] == "" {
				t.Errorf("%s calls %s: use vfs.Root, or give the reason here", s.file, call)
			}
		}
	}
	for file := range opensOther {
		if !used[file] {
			t.Errorf("%s opens nothing by itself: has its reason outlived it?", file)
		}
	}
}

// openings returns the calls of a file that open something.
func openings(t *testing.T, file string) (calls []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", file), nil, parser.SkipObjectResolution)
	must.OK(t, err)
	ast.Inspect(parsed, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := sel.X.(*ast.Ident); ok && slices.Contains(opening[pkg.Name], sel.Sel.Name) {
			calls = append(calls, pkg.Name+"."+sel.Sel.Name)
		}
		return true
	})
	return calls
}

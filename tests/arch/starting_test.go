package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// startsGit is the one file that starts git: its command has the list of what is turned off.
// What a repository names (hooks, filters, monitors, transports) are programs, and the
// repository may be of a fork.
const startsGit = "gitbridge/git.go"

// startsPrograms says which files start a program, and which one.
var startsPrograms = map[string]string{
	startsGit: "git",

	"fusefs/mount.go":                         "fusermount3",
	"internal/mounts/mounts.go":               "fusermount3",
	"cmd/amberfs/terminal.go":                 "the user's pager",
	"cmd/amberfs/cmd_ui.go":                   "the user's browser",
	"cmd/amberfs/run_here.go":                 "the command of a run",
	"cmd/amberfs/internal/search/forks.go":    "amberfs",
	"cmd/amberfs/internal/daemon/kept.go":     "amberfs, of another version",
	"cmd/amberfs/internal/daemon/start.go":    "amberfs",
	"cmd/amberfs/internal/daemon/watchers.go": "amberfs",
	"fusefs/takeover/keeper/keeper.go":        "amberfs",
	"fusefs/takeover/keeper/upgrade.go":       "amberfs",
	"cmd/amberfs/internal/question/some.go":   "the user's editor",
	"cmd/amberfs/internal/sandbox/ids.go":     "nsenter, newuidmap",
	"cmd/amberfs/internal/sandbox/infork.go":  "amberfs",
	"cmd/amberfs/internal/sandbox/inner.go":   "the command of a run",
	"cmd/amberfs/internal/sandbox/outer.go":   "amberfs",
	"cmd/amberfs/internal/sandbox/root.go":    "amberfs",
	"cmd/amberfs/internal/sandbox/trial.go":   "amberfs",
}

// starting are the functions, and types, that start a program.
var starting = map[string][]string{
	"exec":    {"Command", "CommandContext", "Cmd"},
	"os":      {"StartProcess"},
	"syscall": {"Exec", "ForkExec", "StartProcess"},
	"unix":    {"Exec"},
}

var wordGit = regexp.MustCompile(`\bgit\b`)

// TestOneStartOfGit: a program is started in the files above alone, and git in one of them.
func TestOneStartOfGit(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		if s.test || folder(s.pkg) == "tests" {
			continue
		}
		starts, git := startsIn(t, s.file)
		used[s.file] = starts
		if starts && startsPrograms[s.file] == "" {
			t.Errorf("%s starts a program: say which one here; git is started by gitbridge.Git", s.file)
		}
		if git && s.file != startsGit {
			t.Errorf("%s starts git: call gitbridge.Git", s.file)
		}
	}
	for file := range startsPrograms {
		if !used[file] {
			t.Errorf("%s starts no program: it can go from startsPrograms", file)
		}
	}
}

// startsIn reports whether a file starts a program, and whether a literal there names git.
func startsIn(t *testing.T, file string) (starts, git bool) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", file), nil, parser.SkipObjectResolution)
	must.OK(t, err)
	is := func(e ast.Expr) bool {
		sel, ok := e.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		pkg, ok := sel.X.(*ast.Ident)
		return ok && slices.Contains(starting[pkg.Name], sel.Sel.Name)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		var args []ast.Expr
		switch n := n.(type) {
		case *ast.CallExpr:
			if !is(n.Fun) {
				return true
			}
			args = n.Args
		case *ast.CompositeLit:
			if !is(n.Type) {
				return true
			}
			args = n.Elts
		default:
			return true
		}
		starts = true
		for _, a := range args {
			ast.Inspect(a, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					git = git || wordGit.MatchString(strings.ToLower(lit.Value))
				}
				return true
			})
		}
		return true
	})
	return starts, git
}

package control

import (
	"io"
	"math"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// The files that other code of this package names, too.
const (
	createName  = "create"
	restoreName = "restore"
	forkName    = "fork"
	callName    = "call"
	policyName  = "policy"
	latestName  = "latest"
	baseName    = "base"
)

// A file is a name of .snapshots with a meaning of its own. A new one is a row in files.
type file struct {
	name string
	kind uint32 // S_IFREG, S_IFLNK or S_IFDIR
	mode uint32
	look func(*Tree, *snapshot.Workspace, file, Request) (Entry, error)
	// request is what a line that was written to the file asks of the service. Without it
	// the file takes no lines, or as `call` whole requests.
	request func(line string) (any, error)
}

const (
	typeFile = 0o100000
	typeLink = 0o120000
	typeDir  = 0o040000
)

// files are in the order in which they are listed.
var files []file

func init() { // they refer to functions that look into files
	answers := (*Tree).lookupAnswer
	files = []file{
		{createName, typeFile, 0o644, answers, parseCreate},
		{restoreName, typeFile, 0o644, answers, fields(1, math.MaxInt, `the snapshot to restore, as in: echo "SNAPSHOT [PATH...]" > restore`,
			func(f []string) any { return service.Restore{Name: f[0], Paths: naming.BytePaths(f[1:])} })},
		{forkName, typeFile, 0o644, answers, fields(2, 2, `a snapshot and the fork, as in: echo "SNAPSHOT FORK" > fork`,
			func(f []string) any { return service.Fork{Snapshot: f[0], Name: f[1]} })},
		{"export", typeFile, 0o644, answers, fields(1, 2, `a snapshot, and perhaps a ref, as in: echo "SNAPSHOT [REF]" > export`,
			func(f []string) any { return service.Export{Name: f[0], Ref: strings.Join(f[1:], "")} })},
		{callName, typeFile, 0o600, answers, nil},
		{"push", typeFile, 0o644, answers, fields(1, 2, `a snapshot, and perhaps a remote, as in: echo "SNAPSHOT [REMOTE]" > push`,
			func(f []string) any { return service.Push{Snapshots: f[:1], Remote: strings.Join(f[1:], "")} })},
		{"list", typeFile, 0o444, (*Tree).lookupList, nil},
		{"log", typeFile, 0o444, (*Tree).lookupLog, nil},
		{"status", typeFile, 0o444, shows((*Tree).renderStatus), nil},
		{policyName, typeFile, 0o644, shows((*Tree).renderPolicy), func(line string) (any, error) { return service.SetPolicy{Patch: []byte(line)}, nil }},
		{"README", typeFile, 0o444, shows((*Tree).renderReadme), nil},
		{latestName, typeLink, 0o777, (*Tree).lookupLink, nil},
		{"undo", typeLink, 0o777, (*Tree).lookupLink, nil},
		{baseName, typeDir, 0o777, func(t *Tree, ws *snapshot.Workspace, f file, _ Request) (Entry, error) {
			return t.lookupSnapshot(ws, f.name)
		}, nil},
	}
}

// shows is look for a short text that is rendered at each lookup.
func shows(render func(*Tree, io.Writer, *snapshot.Workspace) error) func(*Tree, *snapshot.Workspace, file, Request) (Entry, error) {
	return func(t *Tree, ws *snapshot.Workspace, f file, _ Request) (Entry, error) {
		return t.show(ws, f, func(w io.Writer) error { return render(t, w, ws) })
	}
}

// fields is request for a line of so many fields.
func fields(least, most int, usage string, request func(fields []string) any) func(line string) (any, error) {
	return func(line string) (any, error) {
		f, err := splitFields(line)
		if err == nil && (len(f) < least || len(f) > most) {
			err = errs.New(errs.Invalid, "name %s", usage)
		}
		if err != nil {
			return nil, err
		}
		return request(f), nil
	}
}

func findFile(name string) (file, bool) {
	i := slices.IndexFunc(files, func(f file) bool { return f.name == name })
	if i < 0 {
		return file{}, false
	}
	return files[i], true
}

func isCommand(name string) bool {
	f, ok := findFile(name)
	return ok && f.mode&0o200 != 0
}

// isShared reports whether users that may change the root directory may write to a
// file: to all that run something but what speaks for the owner.
func isShared(name string) bool {
	return isCommand(name) && name != policyName && name != callName
}

// isCall reports whether a name is that of a caller's own call file.
func isCall(name string) bool {
	rest, ok := strings.CutPrefix(name, callName+".")
	return ok && rest != ""
}

// isScratch reports whether a file of this name may be made in .snapshots, to
// be renamed onto a control file: editors and programs that replace a file at
// once write to such a name first (create.tmp.1234, create~, .create.swp,
// sedAbC123).
func isScratch(name string) bool {
	if isCall(name) {
		return false
	}
	for _, f := range files {
		if !isCommand(f.name) {
			continue
		}
		rest, ok := strings.CutPrefix(strings.TrimPrefix(name, "."), f.name)
		if ok && (strings.HasPrefix(rest, ".") && len(rest) > 1 || rest == "~") {
			return true
		}
	}
	rest, ok := strings.CutPrefix(name, "sed")
	return ok && len(rest) == 6
}

// A query is a generated file whose name has the snapshots that it is about.
type query struct {
	what string // diff, stat or info
	a, b string
}

func (q query) String() string {
	if q.b == "" {
		return q.what + "@" + q.a
	}
	return q.what + "@" + q.a + ".." + q.b
}

// parseQuery understands diff@A, diff@A..B, stat@A, stat@A..B and info@A.
func parseQuery(name string) (query, bool) {
	what, arg, ok := strings.Cut(name, "@")
	if !ok || arg == "" {
		return query{}, false
	}
	switch what {
	case "info":
		return query{what: what, a: arg}, true
	case "diff", "stat":
		a, b, two := strings.Cut(arg, "..")
		if a == "" || two && b == "" {
			return query{}, false
		}
		return query{what: what, a: a, b: b}, true
	}
	return query{}, false
}

func parseRestore(name string) (snapshot string, ok bool) {
	snapshot, ok = strings.CutPrefix(name, restoreName+"@")
	return snapshot, ok && snapshot != ""
}

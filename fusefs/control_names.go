package fusefs

import (
	"slices"
	"strings"
)

// The files of .snapshots, in the order in which they are listed.
const (
	createName  = "create"
	restoreName = "restore"
	forkName    = "fork"
	exportName  = "export"
	listName    = "list"
	logName     = "log"
	statusName  = "status"
	policyName  = "policy"
	readmeName  = "README"
	latestName  = "latest"
	undoName    = "undo"
	originName  = "origin"
)

// controlFile says what kind of file a name is.
type controlFile struct {
	name     string
	writable bool
	kind     uint32 // S_IFREG, S_IFLNK or S_IFDIR
}

const (
	typeFile = 0o100000
	typeLink = 0o120000
	typeDir  = 0o040000
)

var controlFiles = []controlFile{
	{createName, true, typeFile},
	{restoreName, true, typeFile},
	{forkName, true, typeFile},
	{exportName, true, typeFile},
	{listName, false, typeFile},
	{logName, false, typeFile},
	{statusName, false, typeFile},
	{policyName, true, typeFile},
	{readmeName, false, typeFile},
	{latestName, false, typeLink},
	{undoName, false, typeLink},
	{originName, false, typeDir},
}

func findControlFile(name string) (controlFile, bool) {
	i := slices.IndexFunc(controlFiles, func(f controlFile) bool { return f.name == name })
	if i < 0 {
		return controlFile{}, false
	}
	return controlFiles[i], true
}

// isCommand reports whether writing to a file runs something.
func isCommand(name string) bool {
	f, ok := findControlFile(name)
	return ok && f.writable
}

// maxScratch is how long a scratch file may be, in bytes.
const maxScratch = 4096

// maxScratchFiles is how many there may be: one more, and the oldest, which nobody
// has cleared away, goes.
const maxScratchFiles = 256

// isScratch reports whether a file of this name may be made in .snapshots, to
// be renamed onto a control file: editors and programs that replace a file at
// once write to such a name first (create.tmp.1234, create~, .create.swp,
// sedAbC123).
func isScratch(name string) bool {
	for _, f := range controlFiles {
		if !f.writable {
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

// A query is a generated file that is named by what it tells about.
type query struct {
	what string // diff, stat or info
	a, b string
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

// parseLever understands the name that `restore` is renamed to.
func parseLever(name string) (snapshot string, ok bool) {
	snapshot, ok = strings.CutPrefix(name, restoreName+"@")
	return snapshot, ok && snapshot != ""
}

package errs

import (
	"net/http"
	"slices"
	"strings"
	"syscall"
)

// A meaning is what a kind says to the kernel, to scripts and to HTTP.
type meaning struct {
	errno syscall.Errno
	name  string
	exit  int
	http  int
	says  string // what the exit status means, for lists of exit statuses
}

var meanings = map[Kind]meaning{
	Failed:   {syscall.EIO, "failed", 1, http.StatusInternalServerError, "failed"},
	Invalid:  {syscall.EINVAL, "usage", 2, http.StatusBadRequest, "wrong usage, or a refused name"},
	NotExist: {syscall.ENOENT, "not-found", 3, http.StatusNotFound, "not found: snapshot, path, fork, store or mount"},
	Exist:    {syscall.EEXIST, "exists", 4, http.StatusConflict, "exists already"},
	Busy:     {syscall.EBUSY, "busy", 5, http.StatusLocked, "busy"},
	NoSpace:  {syscall.ENOSPC, "no-space", 6, http.StatusInsufficientStorage, "no space: the disk is full, or a limit of the policy is reached"},
	Damaged:  {syscall.EIO, "damage", 7, http.StatusInternalServerError, "damage found"},
	Conflict: {syscall.EBUSY, "conflict", 8, http.StatusConflict, "conflict: nothing was changed"},
	Perm:     {syscall.EPERM, "denied", 9, http.StatusForbidden, "denied"},

	// To scripts, these are one of those above.
	NameTooLong:  {syscall.ENAMETOOLONG, "usage", 2, http.StatusBadRequest, ""},
	Quota:        {syscall.EDQUOT, "no-space", 6, http.StatusInsufficientStorage, ""},
	Protected:    {syscall.EPERM, "denied", 9, http.StatusForbidden, ""},
	NotDir:       {syscall.ENOTDIR, "failed", 1, http.StatusInternalServerError, ""},
	IsDir:        {syscall.EISDIR, "failed", 1, http.StatusInternalServerError, ""},
	NotEmpty:     {syscall.ENOTEMPTY, "failed", 1, http.StatusInternalServerError, ""},
	NotSupported: {syscall.EOPNOTSUPP, "failed", 1, http.StatusInternalServerError, ""},
	CrossDevice:  {syscall.EXDEV, "failed", 1, http.StatusInternalServerError, ""},
	TooManyLinks: {syscall.EMLINK, "failed", 1, http.StatusInternalServerError, ""},
	TooBig:       {syscall.EFBIG, "failed", 1, http.StatusInternalServerError, ""},
	Range:        {syscall.E2BIG, "failed", 1, http.StatusInternalServerError, ""},
	NoData:       {syscall.ENXIO, "failed", 1, http.StatusInternalServerError, ""},
	NoAttr:       {syscall.ENODATA, "failed", 1, http.StatusInternalServerError, ""},
	ReadOnly:     {syscall.EROFS, "failed", 1, http.StatusInternalServerError, ""},
	Stale:        {syscall.ESTALE, "failed", 1, http.StatusInternalServerError, ""},
	Closed:       {syscall.ENODEV, "failed", 1, http.StatusInternalServerError, ""},
	Format:       {syscall.EIO, "failed", 1, http.StatusInternalServerError, ""},
	Away:         {syscall.EIO, "failed", 1, http.StatusInternalServerError, ""},
}

// An ExitStatus of a command, with what it means.
type ExitStatus struct {
	Status int
	Says   string // such as "wrong usage, or a refused name"
}

// Short returns the meaning without its details, such as "wrong usage".
func (s ExitStatus) Short() string {
	return s.Says[:strings.IndexAny(s.Says+",", ",:")]
}

// ExitStatuses returns all exit statuses of commands, in order.
func ExitStatuses() []ExitStatus {
	all := []ExitStatus{{0, "done"}}
	for _, m := range meanings {
		if m.says != "" {
			all = append(all, ExitStatus{m.exit, m.says})
		}
	}
	slices.SortFunc(all, func(a, b ExitStatus) int { return a.Status - b.Status })
	return all
}

// Errno is what a process gets; ok is false of a kind that is not one of this package.
func (k Kind) Errno() (errno syscall.Errno, ok bool) {
	m, ok := meanings[k]
	return m.errno, ok
}

// Name is the kind for scripts, as in answers and in JSON output; that of "" is empty.
func (k Kind) Name() string { return meanings[k].name }

// Exit is the exit status of a command that failed so, 0 for "".
func (k Kind) Exit() int { return meanings[k].exit }

// HTTP is the status of an answer.
func (k Kind) HTTP() int { return meanings[k].http }

// Named finds the kind that a name stands for: of those with the same name, the plainest.
func Named(name string) Kind {
	for _, k := range []Kind{Invalid, NotExist, Exist, Busy, NoSpace, Damaged, Conflict, Perm} {
		if meanings[k].name == name {
			return k
		}
	}
	return Failed
}

// MarshalText writes a kind as its name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.Name()), nil }

// UnmarshalText reads a name.
func (k *Kind) UnmarshalText(name []byte) error {
	*k = Named(string(name))
	return nil
}

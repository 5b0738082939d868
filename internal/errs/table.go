package errs

import (
	"net/http"
	"slices"
	"syscall"
)

// A meaning has the numbers and names of a kind for the kernel, for scripts and for HTTP.
type meaning struct {
	errno       syscall.Errno
	name        string // for scripts
	exitStatus  int    // of a command
	httpStatus  int
	description string // describes the exit status; empty if another kind with this exit status has the description
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

	// These kinds have the names and exit statuses of the kinds above.
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
	Unreachable:  {syscall.EIO, "failed", 1, http.StatusInternalServerError, ""},
}

// An ExitStatus is an exit status of commands, and its description.
type ExitStatus struct {
	Status      int
	Description string // such as "wrong usage, or a refused name"
}

// ExitStatuses returns all exit statuses of commands, in order.
func ExitStatuses() []ExitStatus {
	all := []ExitStatus{{0, "done"}}
	for _, m := range meanings {
		if m.description != "" {
			all = append(all, ExitStatus{m.exitStatus, m.description})
		}
	}

	slices.SortStableFunc(all, func(a, b ExitStatus) int { return a.Status - b.Status })
	return all
}

// Errno returns the errno of the kind. ok is false for a Kind that is not defined in this package.
func (k Kind) Errno() (errno syscall.Errno, ok bool) {
	m, ok := meanings[k]
	return m.errno, ok
}

// Name returns the name of the kind for scripts, as in answers and in JSON output. It is "" for "".
func (k Kind) Name() string { return meanings[k].name }

// ExitStatus returns the exit status of a command that fails with the kind, 0 for "".
func (k Kind) ExitStatus() int { return meanings[k].exitStatus }

// HTTPStatus returns the HTTP status of an answer that reports an error of the kind.
func (k Kind) HTTPStatus() int { return meanings[k].httpStatus }

// KindNamed returns the kind whose name for scripts is name. If several kinds have the name, it returns the kind that
// has a description. For an unknown name it returns Failed.
func KindNamed(name string) Kind {
	for _, k := range []Kind{Invalid, NotExist, Exist, Busy, NoSpace, Damaged, Conflict, Perm} {
		if meanings[k].name == name {
			return k
		}
	}
	return Failed
}

// MarshalText returns the name of the kind for scripts.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.Name()), nil }

// UnmarshalText sets the kind to the result of KindNamed.
func (k *Kind) UnmarshalText(name []byte) error {
	*k = KindNamed(string(name))
	return nil
}

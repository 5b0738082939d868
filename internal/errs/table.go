package errs

import (
	"net/http"
	"syscall"
)

// A meaning is what a kind says to the kernel, to scripts and to HTTP.
type meaning struct {
	errno syscall.Errno
	name  string
	exit  int
	http  int
}

var meanings = map[Kind]meaning{
	Failed:   {syscall.EIO, "failed", 1, http.StatusInternalServerError},
	Invalid:  {syscall.EINVAL, "usage", 2, http.StatusBadRequest},
	NotExist: {syscall.ENOENT, "not-found", 3, http.StatusNotFound},
	Exist:    {syscall.EEXIST, "exists", 4, http.StatusConflict},
	Busy:     {syscall.EBUSY, "busy", 5, http.StatusLocked},
	NoSpace:  {syscall.ENOSPC, "no-space", 6, http.StatusInsufficientStorage},
	Damaged:  {syscall.EIO, "damage", 7, http.StatusInternalServerError},
	Conflict: {syscall.EBUSY, "conflict", 8, http.StatusConflict},
	Perm:     {syscall.EPERM, "denied", 9, http.StatusForbidden},

	// To scripts, these are one of those above.
	NameTooLong:  {syscall.ENAMETOOLONG, "usage", 2, http.StatusBadRequest},
	Quota:        {syscall.EDQUOT, "no-space", 6, http.StatusInsufficientStorage},
	Protected:    {syscall.EPERM, "denied", 9, http.StatusForbidden},
	NotDir:       {syscall.ENOTDIR, "failed", 1, http.StatusInternalServerError},
	IsDir:        {syscall.EISDIR, "failed", 1, http.StatusInternalServerError},
	NotEmpty:     {syscall.ENOTEMPTY, "failed", 1, http.StatusInternalServerError},
	NotSupported: {syscall.EOPNOTSUPP, "failed", 1, http.StatusInternalServerError},
	CrossDevice:  {syscall.EXDEV, "failed", 1, http.StatusInternalServerError},
	TooManyLinks: {syscall.EMLINK, "failed", 1, http.StatusInternalServerError},
	TooBig:       {syscall.EFBIG, "failed", 1, http.StatusInternalServerError},
	Range:        {syscall.E2BIG, "failed", 1, http.StatusInternalServerError},
	NoData:       {syscall.ENXIO, "failed", 1, http.StatusInternalServerError},
	NoAttr:       {syscall.ENODATA, "failed", 1, http.StatusInternalServerError},
	ReadOnly:     {syscall.EROFS, "failed", 1, http.StatusInternalServerError},
	Stale:        {syscall.ESTALE, "failed", 1, http.StatusInternalServerError},
	Closed:       {syscall.ENODEV, "failed", 1, http.StatusInternalServerError},
	Format:       {syscall.EIO, "failed", 1, http.StatusInternalServerError},
	Away:         {syscall.EIO, "failed", 1, http.StatusInternalServerError},
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

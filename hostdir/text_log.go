package hostdir

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A textLog adds contents to the log of a source: the texts that a plan makes, and the files of the directory,
// which are read when the merge reads them. The payload numbers of these contents are negative.
type textLog struct {
	content.Log
	host      *host
	texts     *os.File // a file without a name; nil until there is a text
	textBytes int64    // the size of texts
	files     []*tree.Path
}

// textPayload is the payload number of all texts. Files have lower numbers. The log below has no negative
// numbers.
const textPayload = -1

// setBelow sets the log that has all other contents, and returns the textLog.
func (l *textLog) setBelow(below content.Log) content.Log {
	l.Log = below
	return l
}

func (l *textLog) close() {
	if l.texts != nil {
		l.texts.Close()
	}
}

// storeText stores a text, and returns it as a content.
func (l *textLog) storeText(_ context.Context, r io.Reader) (_ *content.Content, err error) {
	if l.texts == nil {
		if l.texts, err = unnamedFile(); err != nil {
			return nil, err
		}
	}

	off := l.textBytes
	n, err := io.Copy(io.NewOffsetWriter(l.texts, off), r)
	l.textBytes += n
	if err != nil {
		return nil, err
	}

	c := content.New(hostEpoch)
	return c, c.Write(nil, 0, n, off, textPayload)
}

// fileContent returns the content of a file of the directory, with its holes, and whether the user may read the file.
func (l *textLog) fileContent(p *tree.Path, size int64) (c *content.Content, readable bool, err error) {
	l.files = append(l.files, p)
	payload := textPayload - int64(len(l.files))
	parts := []content.DataRange{{N: size}}

	f, err := l.host.openFile(p)
	if err != nil && !errors.Is(err, unix.EACCES) {
		return nil, false, err
	}
	if readable = err == nil; readable {
		parts = dataParts(int(f.Fd()), size)
		f.Close()
	}

	c = content.New(hostEpoch)
	for _, part := range parts {
		if err := c.Write(nil, part.Off, part.N, part.Off, payload); err != nil {
			return nil, false, err
		}
	}

	return c, readable, c.Truncate(nil, size)
}

// ReadAt implements content.Log. The number payload chooses what it reads: texts (textPayload), a file of the
// directory (a lower number), or the log below (a higher number).
func (l *textLog) ReadAt(p []byte, off, payload int64) error {
	if payload >= 0 {
		return l.Log.ReadAt(p, off, payload)
	}

	f := l.texts
	if payload != textPayload {
		// The writer may hold the descriptor of host.dirFD, so this needs one of its own.
		name := l.files[textPayload-1-payload]
		dir, err := l.host.newDirFD(name.Dir)
		if err != nil {
			return ignoreReplaced(err)
		}
		defer unix.Close(dir)

		if f, err = openIn(dir, name.Name, unix.O_RDONLY); err != nil {
			return ignoreReplaced(err)
		}
		defer f.Close()
	}

	_, err := f.ReadAt(p, off)
	return errs.Ignore(err, io.EOF) // the file was truncated: the writer will find that it changed
}

// ignoreReplaced returns nil for the error of a path that a program has removed or replaced since it was planned. If
// the apply changes this path, the writer will find that it changed.
func ignoreReplaced(err error) error {
	for _, gone := range []error{unix.ENOENT, unix.ENOTDIR, unix.ELOOP} {
		err = errs.Ignore(err, gone)
	}
	return err
}

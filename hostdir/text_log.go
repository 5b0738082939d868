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

// A textLog adds contents to the log of a source: the texts that a plan makes, and the
// files of the directory, which are read when the merge reads them. Each content has a payload below 0 in it.
type textLog struct {
	content.Log
	host  *host
	texts *os.File // without a name; nil until there is a text
	end   int64    // of texts
	files []*tree.Path
	open  *os.File // the file that was read last, nil for none
	last  int64    // the payload of open
}

// storedText is the payload of all texts. Files have lower ones. The log below has no payloads below 0.
const storedText = -1

// addTo sets the log below, and returns the textLog.
func (l *textLog) addTo(below content.Log) content.Log {
	l.Log = below
	return l
}

func (l *textLog) close() {
	for _, f := range []*os.File{l.texts, l.open} {
		if f != nil {
			f.Close()
		}
	}
}

// store stores a text, and returns it as a content.
func (l *textLog) store(_ context.Context, r io.Reader) (*content.Content, error) {
	if l.texts == nil {
		f, err := os.CreateTemp("", "amberfs-apply-*")
		if err != nil {
			return nil, err
		}
		if l.texts = f; os.Remove(f.Name()) != nil {
			return nil, errors.New("a temporary file cannot be removed: " + f.Name())
		}
	}

	at := l.end
	n, err := io.Copy(io.NewOffsetWriter(l.texts, at), r)
	l.end += n
	if err != nil {
		return nil, err
	}

	c := content.New(hostEpoch)
	return c, c.Write(nil, 0, n, at, storedText)
}

// ofFile returns the content of a file of the directory, with its holes.
func (l *textLog) ofFile(p *tree.Path, size int64) (*content.Content, error) {
	l.files = append(l.files, p)
	payload := storedText - int64(len(l.files))
	parts := []content.Part{{N: size}} // without holes

	f, err := l.file(payload)
	if err == nil {
		if holes, _, herr := dataOf(f, size); herr == nil && holes != nil {
			parts = holes
		}
	}
	if err != nil && !errors.Is(err, unix.EACCES) {
		return nil, err
	}

	c := content.New(hostEpoch)
	for _, part := range parts {
		if err := c.Write(nil, part.Off, part.N, part.Off, payload); err != nil {
			return nil, err
		}
	}

	return c, c.Truncate(nil, size)
}

// file opens the file with a payload. The next call may close it.
func (l *textLog) file(payload int64) (f *os.File, err error) {
	if l.open != nil && l.last == payload {
		return l.open, nil
	}
	if l.open != nil {
		l.open.Close()
	}

	l.last = payload
	l.open, err = l.host.file(l.files[storedText-1-payload]) // nil after an error
	return l.open, err
}

// ReadAt is a method of content.Log.
func (l *textLog) ReadAt(p []byte, at, payload int64) error {
	if payload >= 0 {
		return l.Log.ReadAt(p, at, payload)
	}

	f, err := l.texts, error(nil)
	if payload != storedText {
		f, err = l.file(payload)
	}
	if err == nil {
		_, err = f.ReadAt(p, at)
	}

	return errs.Except(err, io.EOF) // the file became shorter: the writer finds that it changed
}

package hostdir

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A textLog is a log of unsealed bytes over the log of a source. It has the texts that a plan made, in a
// file without a name, and files of the directory, which it reads when a merge does.
type textLog struct {
	content.Log
	ctx   context.Context
	host  *host
	texts *os.File
	end   int64        // of texts
	files []*tree.Path // see payloads
}

// Payloads of a textLog: storedText is of texts, and lower ones count down through files. A journal has
// none below 0.
const storedText = -1

func newTextLog(ctx context.Context, h *host) (*textLog, error) {
	f, err := os.CreateTemp("", "amberfs-apply-*")
	if err != nil {
		return nil, err
	}
	return &textLog{ctx: ctx, host: h, texts: f}, os.Remove(f.Name())
}

// over returns the log over another one.
func (l *textLog) over(below content.Log) content.Log {
	l.Log = below
	return l
}

// store stores a text.
func (l *textLog) store(_ context.Context, r io.Reader) (*content.Content, error) {
	at := l.end
	n, err := io.Copy(io.NewOffsetWriter(l.texts, at), r)
	l.end += n
	if err != nil {
		return nil, err
	}
	return contentOf(n, at, storedText)
}

// ofFile returns the contents of a file of the directory.
func (l *textLog) ofFile(p *tree.Path, size int64) (*content.Content, error) {
	l.files = append(l.files, p)
	return contentOf(size, 0, storedText-int64(len(l.files)))
}

func contentOf(n, at, payload int64) (*content.Content, error) {
	c := content.New(hostEpoch)
	return c, c.Write(nil, 0, n, at, payload)
}

// ReadAt is a method of content.Log. A file that may not be read has bytes that no other file has.
func (l *textLog) ReadAt(p []byte, at, payload int64) error {
	switch {
	case payload >= 0:
		return l.Log.ReadAt(p, at, payload)
	case payload == storedText:
		_, err := l.texts.ReadAt(p, at)
		return err
	}

	f, err := l.host.file(l.files[storedText-1-payload])
	if errors.Is(err, unix.EACCES) {
		_, err = rand.Read(p)
		return err
	}
	if err != nil {
		return err
	}
	defer f.Close()

	if _, err = f.ReadAt(p, at); errors.Is(err, io.EOF) {
		err = nil // it became shorter: the writer sees that it changed
	}

	return err
}

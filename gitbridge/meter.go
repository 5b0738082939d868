package gitbridge

import (
	"io"
	"io/fs"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
)

// maxUnwrittenBytes is the largest number of bytes that were sent to git and that git has not written yet.
const maxUnwrittenBytes = 4 << 20

// A meter charges the disk space of an export before the export uses the space. All numbers are bytes.
type meter struct {
	admit   func(bytes int64) error // ExportOptions.Admit
	measure func() (int64, error)   // measures the bytes that git has written
	maxSent int64                   // limit of sent; 0: no limit

	sent      int64 // contents sent to git
	written   int64 // result of the last call of measure
	sentSince int64 // contents sent since that call
	temporary int64 // written to temporary files
	admitted  int64 // bytes admitted so far
}

// chargeContents charges n bytes of contents. The caller then sends them to git.
func (m *meter) chargeContents(n int64) error {
	m.sent += n
	m.sentSince += n
	if m.maxSent > 0 && m.sent > m.maxSent {
		return errs.New(errs.Quota, "limit reached: an export of a fork reads at most %d GiB; delete large files, or export from the workspace above", m.maxSent>>30)
	}
	return m.charge()
}

// chargeTemporary charges n bytes of a temporary file.
func (m *meter) chargeTemporary(n int64) error {
	m.temporary += n
	return m.charge()
}

// charge calls admit if the export may need more than was admitted.
func (m *meter) charge() error {
	if m.admit == nil || m.maxNeeded() <= m.admitted {
		return nil
	}
	var err error
	if m.written, err = m.measure(); err != nil {
		return err
	}

	m.sentSince = 0
	return m.correct(max(m.admitted, m.maxNeeded()))
}

// maxNeeded returns the bytes that the export can have on the disk at most until the next call of measure.
func (m *meter) maxNeeded() int64 {
	return min(m.sent, m.written+m.sentSince+maxUnwrittenBytes) + m.temporary
}

// correct changes the admitted bytes to a number. At the end, this is the number of bytes that the export has written.
func (m *meter) correct(bytes int64) error {
	if m.admit == nil || bytes == m.admitted {
		return nil
	}
	if err := m.admit(bytes - m.admitted); err != nil {
		return err
	}

	m.admitted = bytes

	return nil
}

// A meteredWriter charges bytes before it writes them.
type meteredWriter struct {
	io.Writer
	charge func(n int64) error
}

func (m meteredWriter) Write(p []byte) (int, error) {
	if err := m.charge(int64(len(p))); err != nil {
		return 0, err
	}
	return m.Writer.Write(p)
}

// listObjects returns the paths of the finished objects in the quarantine, and the bytes of all its files.
func (q *quarantine) listObjects() (objects []string, bytes int64, err error) {
	err = fs.WalkDir(q.objects.FS(), q.name, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return errs.Ignore(err, fs.ErrNotExist) // git has renamed or removed the file
		}
		st, err := d.Info()
		if err != nil {
			return errs.Ignore(err, fs.ErrNotExist)
		}

		bytes += st.Size()
		if !strings.HasPrefix(d.Name(), "tmp_") && !strings.HasSuffix(d.Name(), ".keep") {
			objects = append(objects, name[len(q.name)+1:])
		}

		return nil
	})
	return objects, bytes, err
}

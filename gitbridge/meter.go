package gitbridge

import (
	"io"
	"io/fs"

	"github.com/amberfs/amberfs/internal/errs"
)

// inFlight is how many bytes git has at the most that it was sent and has not written yet.
const inFlight = 4 << 20

// A meter charges the disk space of an export before the export uses it.
type meter struct {
	admit func(bytes int64) error // see ExportOptions
	look  func() (int64, error)   // how many bytes git has written
	most  int64                   // of contents; 0 is without a limit

	sent    int64 // contents
	written int64 // when it was last looked
	unseen  int64 // contents that were sent since
	scratch int64 // in temporary files
	taken   int64 // was admitted
}

// add charges contents that git is to be sent.
func (m *meter) add(n int64) error {
	m.sent += n
	m.unseen += n
	if m.most > 0 && m.sent > m.most {
		return errs.New(errs.Quota, "limit reached: an export of a fork reads at most %d GiB; delete large files, or export from the workspace above", m.most>>30)
	}
	return m.take()
}

// spool charges bytes of a temporary file.
func (m *meter) spool(n int64) error {
	m.scratch += n
	return m.take()
}

func (m *meter) take() error {
	if m.admit == nil || m.need() <= m.taken {
		return nil
	}
	var err error
	if m.written, err = m.look(); err != nil {
		return err
	}

	m.unseen = 0
	more := m.need() - m.taken
	if more <= 0 {
		return nil
	}
	if err := m.admit(more); err != nil {
		return err
	}

	m.taken += more

	return nil
}

// need is how many bytes can be on the disk before the next look.
func (m *meter) need() int64 { return min(m.sent, m.written+m.unseen+inFlight) + m.scratch }

// settle charges the bytes that were written in the end, and gives the rest back.
func (m *meter) settle(bytes int64) error {
	if m.admit == nil || bytes == m.taken {
		return nil
	}
	err := m.admit(bytes - m.taken)
	if err == nil {
		m.taken = bytes
	}

	return err
}

// metered charges what is read of a file before it is.
type meteredReader struct {
	r      io.Reader
	charge func(n int64) error
}

func (m meteredReader) Read(p []byte) (int, error) {
	p = p[:min(len(p), 1<<20)]
	if err := m.charge(int64(len(p))); err != nil {
		return 0, err
	}
	return m.r.Read(p)
}

// spooled charges what is written to a temporary file before it is.
type meteredWriter struct {
	io.Writer
	*meter
}

func (s meteredWriter) Write(p []byte) (int, error) {
	if err := s.spool(int64(len(p))); err != nil {
		return 0, err
	}
	return s.Writer.Write(p)
}

// written returns the objects in the quarantine, but unfinished ones, and the bytes of all.
func (q *quarantine) written() (objects []string, bytes int64, err error) {
	err = fs.WalkDir(q.objects.FS(), q.name, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return errs.Except(err, fs.ErrNotExist) // git has renamed or removed it
		}
		st, err := d.Info()
		if err != nil {
			return errs.Except(err, fs.ErrNotExist)
		}

		bytes += st.Size()
		if isObject(d.Name()) {
			objects = append(objects, name[len(q.name)+1:])
		}

		return nil
	})
	return objects, bytes, err
}

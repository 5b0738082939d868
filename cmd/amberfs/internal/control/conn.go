package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// socketPath gives a name for the socket of the store dir that is short
// whatever dir is, good until the returned function is called.
func socketPath(dir string) (string, func(), error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return filepath.Join("/proc/self/fd", strconv.Itoa(fd), SocketName), func() { unix.Close(fd) }, nil
}

// writeLine sends v as one line.
func writeLine(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding a control message: %w", err)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// writeData sends p as raw bytes, in as many pieces as it takes.
func writeData(w io.Writer, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), maxData)
		if err := writeLine(w, dataLine{Data: n}); err != nil {
			return err
		}
		if _, err := w.Write(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

type dataLine struct {
	Data int `json:"data"`
}

// readLine reads one line of JSON, of at most limit bytes, into v.
func readLine(r *bufio.Reader, v any, limit int) error {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > limit {
			return errors.New("a control message is too long")
		}
		if err == nil {
			break
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) && len(bytes.TrimSpace(line)) > 0 {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("reading a control message: %w", err)
	}
	return nil
}

// Peer is who is at the other end.
type Peer struct {
	UID, GID uint32
	PID      int
}

// peerOf asks the kernel who connected c.
func peerOf(c *net.UnixConn) (Peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	var cerr error
	err = raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, cerr); err != nil {
		return Peer{}, fmt.Errorf("asking who is connected: %w", err)
	}
	return Peer{UID: cred.Uid, GID: cred.Gid, PID: int(cred.Pid)}, nil
}

package fusefs

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/amberfs/amberfs/fusefs/wire"
)

func TestAnswered(t *testing.T) {
	request := func(op uint32, size uint32) []byte {
		b := make([]byte, 80)
		binary.NativeEndian.PutUint32(b[4:], op)
		binary.NativeEndian.PutUint32(b[writeSizeOffset:], size)
		return b
	}
	for _, c := range []struct {
		request []byte
		size    int
		want    AnsweredRequest
	}{
		{request(wire.OpRead, 0), wire.OutHeaderSize + 100, AnsweredRequest{Op: "READ", ReadBytes: 100}},
		{request(wire.OpRead, 0), wire.OutHeaderSize, AnsweredRequest{Op: "READ"}}, // an error
		{request(wire.OpWrite, 4096), wire.OutHeaderSize + 8, AnsweredRequest{Op: "WRITE", WrittenBytes: 4096}},
		{request(wire.OpWrite, 4096), wire.OutHeaderSize, AnsweredRequest{Op: "WRITE"}}, // an error
		{request(45, 0), wire.OutHeaderSize, AnsweredRequest{Op: "RENAME"}},             // RENAME2
		{request(12, 0), wire.OutHeaderSize, AnsweredRequest{Op: "RENAME"}},
		{request(4000, 0), wire.OutHeaderSize, AnsweredRequest{}},
		{nil, 0, AnsweredRequest{}},
	} {
		c.want.Duration = time.Second
		if got := describeAnswer(c.request, c.size, time.Second); got != c.want {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
}

// FuzzHeader: a request of any length has the number of a known operation, or none.
func FuzzHeader(f *testing.F) {
	f.Add(make([]byte, wire.InHeaderSize), 16)
	f.Add(append(bytes.Repeat([]byte{16, 0, 0, 0}, 20), 0xff), 24)
	f.Fuzz(func(t *testing.T, request []byte, size int) {
		a := describeAnswer(request, size, time.Second)
		if op := wire.Opcode(request); a.Op != wire.Operations[op] || a.ReadBytes < 0 || a.WrittenBytes < 0 {
			t.Errorf("operation %d is described as %+v", op, a)
		}
		if _, ok := interruptTarget(request); ok != (a.Op == "INTERRUPT" && len(request) >= wire.InHeaderSize+8) {
			t.Errorf("%d bytes of %q are an interrupt: %v", len(request), a.Op, ok)
		}
	})
}

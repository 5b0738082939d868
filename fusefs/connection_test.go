package fusefs

import (
	"bytes"
	"encoding/binary"
	"log/slog"
	"testing"
)

// FuzzInit: an INIT of any length and with any terms is refused, or answered under its number, and always in
// the same way: a mount can be taken over only with the same answer.
func FuzzInit(f *testing.F) {
	const header, number = 40, 8 // the length of struct fuse_in_header, and the offset of unique in it and in the answer
	const opcodeInit = 26
	init := make([]byte, header+64)
	binary.NativeEndian.PutUint32(init, uint32(len(init)))
	binary.NativeEndian.PutUint64(init[number:], 7)
	binary.NativeEndian.PutUint32(init[header:], 7) // the version
	binary.NativeEndian.PutUint32(init[header+4:], 40)
	for _, n := range []int{len(init), header + 20, header + 19, 3} {
		f.Add(init[:n])
	}

	o := Options{Logger: slog.New(slog.DiscardHandler)}
	f.Fuzz(func(t *testing.T, init []byte) {
		if init = bytes.Clone(init); len(init) >= header {
			binary.NativeEndian.PutUint32(init[4:], opcodeInit)
		}

		answer, err := AnswerInit(o, init)
		if err != nil {
			return
		}
		if len(answer) < number+8 || !bytes.Equal(answer[number:number+8], init[number:number+8]) {
			t.Errorf("%x is answered by %x", init, answer)
		}
		if again, err := AnswerInit(o, init); err != nil || !bytes.Equal(again, answer) {
			t.Errorf("%x is answered by %x, and then by %x, %v", init, answer, again, err)
		}
	})
}

package service

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"

	"github.com/amberfs/amberfs/cas"
)

// objects gives the objects whose hashes come in, each with its length in front
// (32 bits, little endian). The answer is complete or an error.
func (s *Service) objects(_ context.Context, r *Request, _ Objects) (None, error) {
	in, out := bufio.NewReaderSize(r.In, 64<<10), bufio.NewWriterSize(r.Out, 256<<10)
	var object []byte
	for {
		var h cas.Hash
		if _, err := io.ReadFull(in, h[:]); errors.Is(err, io.EOF) {
			return None{}, out.Flush()
		} else if err != nil {
			return None{}, err
		}
		var err error
		if object, err = s.Store.Object(h, object); err != nil {
			return None{}, err
		}
		out.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(object))))
		if _, err := out.Write(object); err != nil {
			return None{}, err
		}
	}
}

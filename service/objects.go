package service

import (
	"bufio"
	"context"
	"encoding/binary"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
)

// MaxObjects is the most objects in one request.
const MaxObjects = 1024

// readObjects writes each object with its length in front (32 bits, little endian). The hashes are
// arguments and not a stream, because net/http closes the body of a request at the first flush of
// the answer.
func readObjects(_ context.Context, r *Request, a Objects) (None, error) {
	if len(a.Hashes) > MaxObjects {
		return None{}, errs.Fail(errs.Invalid, "%d objects in one request are more than the %d allowed", len(a.Hashes), MaxObjects)
	}
	out := bufio.NewWriterSize(r.Out, 256<<10)
	var object []byte

	for _, text := range a.Hashes {
		h, err := cas.ParseHash(text)
		if err != nil {
			return None{}, errs.Fail(errs.Invalid, "%w", err)
		}
		if object, err = r.Workspace.Store().Object(h, object); err != nil {
			return None{}, err
		}

		out.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(object))))
		if _, err := out.Write(object); err != nil {
			return None{}, err
		}
	}

	return None{}, out.Flush()
}

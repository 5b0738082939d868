package service

import (
	"bytes"
	"context"
	"encoding/json"
	"unicode/utf8"

	"github.com/amberfs/amberfs/internal/fail"
)

// An Answer is what `.snapshots/call` says of a request.
type Answer struct {
	OK bool `json:"ok"`
	*fail.Error
	Result any `json:"result,omitempty"`
	// Text is the stream of an operation that gives one, Items are its events.
	Text  string            `json:"text,omitempty"`
	Items []json.RawMessage `json:"items,omitempty"`
	// Stream tells that the stream is long, or no text: it is in a file beside the
	// control file, with .stream at the end of its name, events as one JSON object
	// a line.
	Stream bool `json:"stream,omitempty"`

	events bool
}

// Call carries out one request of a caller in the mount, written as one JSON
// object: the name of the operation as "op", and its arguments beside it. The
// answer is there whatever becomes of the request; err is for the errno. A stream
// goes to r.Out, events as one JSON object a line; Inline puts it into the answer.
func (s *Service) Call(ctx context.Context, r *Request, request []byte) (a Answer, err error) {
	o, args, err := parseCall(request)
	if err != nil {
		return Failed(err), err
	}
	r.In = bytes.NewReader(nil)
	lines := json.NewEncoder(r.Out)
	lines.SetEscapeHTML(false)
	r.Item = lines.Encode
	result, err := s.do(ctx, r, o, args)
	if err != nil {
		return Failed(err), err
	}
	return Answer{OK: true, Result: result, events: o.Output == Events}, nil
}

// Inline puts a stream into the answer. It reports false if that is no text, which
// JSON cannot hold.
func (a *Answer) Inline(stream []byte) bool {
	if !utf8.Valid(stream) {
		return false
	}
	if !a.events {
		a.Text = string(stream)
		return true
	}
	for line := range bytes.Lines(stream) {
		a.Items = append(a.Items, bytes.TrimSpace(line))
	}
	return true
}

// Failed is the answer to a request that failed.
func Failed(err error) Answer {
	e := *fail.Of(err)
	a := Answer{Error: &e, Result: e.Result}
	e.Result = nil
	return a
}

// parseCall reads a request. Unknown operations and arguments are refused.
func parseCall(request []byte) (*Op, any, error) {
	name, object, err := parse(request)
	if err != nil {
		return nil, nil, err
	}
	o, err := findOp(name)
	if err != nil {
		return nil, nil, err
	}
	args, err := o.decode(object)
	return o, args, err
}

// Compares reports whether a request is to compare states, which takes a processor for
// as long as they are large.
func Compares(request []byte) bool {
	_, args, err := parseCall(request)
	if err != nil {
		return false
	}
	switch a := args.(type) {
	case Diff, Changes, Hunks, PathHistory:
		return true
	case Restore:
		return a.DryRun
	}
	return false
}

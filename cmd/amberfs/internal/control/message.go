package control

import (
	"encoding/json"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
)

// SocketName is the socket's name in the store.
const SocketName = "socket"

const (
	// maxRequest bounds the line of a request, which may name many paths.
	maxRequest = 16 << 20
	// maxResponse bounds a line of the daemon; a restore may have changed
	// millions of paths.
	maxResponse = 2 << 30
)

// maxData bounds the raw bytes that one {"data":N} line announces.
const maxData = 1 << 20

// Request is the line that a command sends.
type Request struct {
	Op string `json:"op"`
	// Workspace is the chain of fork names from main; empty is main itself.
	Workspace []string        `json:"workspace,omitempty"`
	Args      json.RawMessage `json:"args,omitempty"`
	// Command is what the user ran, for the event log.
	Command string `json:"command,omitempty"`
}

// Progress is how far long work has come. A Total of 0 is not known yet.
type Progress struct {
	What  string `json:"what"`
	Done  int64  `json:"done"`
	Total int64  `json:"total,omitempty"`
	// Unit is "bytes" or "files".
	Unit string `json:"unit,omitempty"`
}

// Response is one line of the daemon.
type Response struct {
	Progress *Progress       `json:"progress,omitempty"`
	Item     json.RawMessage `json:"item,omitempty"`
	Data     *int            `json:"data,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    *Error          `json:"error,omitempty"`
}

// Error is a fail.Error on the wire.
type Error struct {
	Kind    fail.Kind `json:"kind"`
	Message string    `json:"message"`
	Hint    string    `json:"hint,omitempty"`
	// Result is what there is to show all the same: conflicts, damage.
	Result json.RawMessage `json:"result,omitempty"`
}

// ResultError is a failure that has something to show: the paths in conflict,
// the damage found.
type ResultError struct {
	Err    error
	Result any
}

// Error gives the sentence of the failure.
func (e *ResultError) Error() string { return e.Err.Error() }

// Unwrap gives the failure.
func (e *ResultError) Unwrap() error { return e.Err }

// Hello is the result of the operation "hello", which tells a command whom it
// speaks to.
type Hello struct {
	PID        int    `json:"pid"`
	Version    string `json:"version"`
	Store      string `json:"store"`
	Mountpoint string `json:"mountpoint"`
}

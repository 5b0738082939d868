package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/gitquote"
)

// An answer is one to a request over HTTP. Its methods are safe for concurrent
// use.
type answer struct {
	ctx   context.Context // of the request: a stream ends with it
	w     http.ResponseWriter
	out   *http.ResponseController
	op    *Op
	lines bool // the client wants to know how far it is
	hasty bool // events go out at once

	mu    sync.Mutex
	began bool
	last  time.Time // when progress was told
}

// A line is one of an answer of the type Lines.
type line struct {
	Progress *Progress   `json:"progress,omitempty"`
	Result   any         `json:"result,omitempty"`
	Error    *fail.Error `json:"error,omitempty"`
}

// begin sends the head of a stream. Called with mu held.
func (a *answer) begin(contentType string) {
	if a.began {
		return
	}
	a.began = true
	h := a.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Add("Trailer", ResultTrailer)
	h.Add("Trailer", ErrorTrailer)
	a.w.WriteHeader(http.StatusOK)
}

// Write sends a part of a stream of text or bytes.
func (a *answer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin(a.op.Output)
	if err := a.ctx.Err(); err != nil {
		return 0, err
	}
	return a.w.Write(p)
}

// item sends an event.
func (a *answer) item(v any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin(Events)
	if err := a.ctx.Err(); err != nil {
		return err
	}
	return a.event("message", v)
}

// event is called with mu held.
func (a *answer) event(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	if name != "message" {
		name = "event: " + name + "\n"
	} else {
		name = ""
	}
	if _, err := fmt.Fprintf(a.w, "%sdata: %s\n\n", name, gitquote.JSON(b)); err != nil || !a.hasty {
		return err
	}
	return a.out.Flush()
}

// progress tells how far the work has come. Most calls are dropped: a person
// needs ten a second.
func (a *answer) progress(p Progress) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if !a.lines || now.Sub(a.last) < 100*time.Millisecond && (p.Total == 0 || p.Done < p.Total) {
		return
	}
	a.last = now
	a.line(line{Progress: &p})
}

// line is called with mu held. Whether the client is still there tells the
// context of the request.
func (a *answer) line(l line) {
	a.begin(Lines)
	e := json.NewEncoder(gitquote.JSONWriter{To: a.w})
	e.SetEscapeHTML(false)
	_ = e.Encode(l)
	_ = a.out.Flush()
}

// finish ends the answer.
func (a *answer) finish(result any, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.began && a.lines && err != nil:
		a.line(line{Error: fail.Of(err)})
	case a.began && a.lines:
		a.line(line{Result: result})
	case err != nil && !a.began:
		writeError(a.w, err)
	case a.op.Output == "":
		writeJSON(a.w, http.StatusOK, result)
	case a.op.Output == Events && err != nil:
		_ = a.event("error", fail.Of(err))
	case a.op.Output == Events:
		a.begin(Events)
	default:
		a.begin(a.op.Output)
		a.trailer(result, err)
	}
}

// trailer is called with mu held.
func (a *answer) trailer(result any, err error) {
	name, v := ResultTrailer, result
	if err != nil {
		name, v = ErrorTrailer, fail.Of(err)
	}
	if b, err := json.Marshal(v); err == nil {
		a.w.Header().Set(name, string(b))
	}
}

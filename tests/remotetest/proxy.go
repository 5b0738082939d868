// Package remotetest holds what tests of remotes share: real servers, a proxy
// that disturbs, and the suite that every backend passes.
//
// Imported by: tests.
package remotetest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/must"
)

// A Proxy stands before a server and disturbs what goes through, when it is told to.
type Proxy struct {
	*httptest.Server
	Requests  atomic.Int64
	BytesUp   atomic.Int64
	BytesDown atomic.Int64

	mu    sync.Mutex
	delay time.Duration
	away  bool
	quiet chan struct{} // closed when requests are answered again
	next  []Fault
	done  []Served
}

// Served is a request that was answered.
type Served struct {
	Method, Path, Range string
	Began, Ended        time.Time
	Down                int64 // bytes
}

// Served returns the requests that began after a time, in the order of their ends.
func (p *Proxy) Served(since time.Time) (out []Served) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.done {
		if !s.Began.Before(since) {
			out = append(out, s)
		}
	}
	return out
}

// InSequence is the largest number of requests of which each began after the one
// before had ended. They are in the order of their ends.
func InSequence(all []Served) (n int) {
	var last time.Time
	for _, s := range all {
		if s.Began.After(last) {
			n, last = n+1, s.Ended
		}
	}
	return n
}

// A Fault is what happens to one request.
type Fault int

// The faults that a Proxy knows.
const (
	Busy      Fault = iota // answers 503, the server hears nothing
	Lost                   // the server does it, its answer is lost
	Cut                    // half of the answer's body comes
	Flipped                // one byte of the answer's body is another one
	Untouched              // goes through
)

// NewProxy returns a proxy before the server at target, until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	p, err := Start(target)
	must.OK(t, err)
	t.Cleanup(p.Stop)
	return p
}

// Start is NewProxy outside of tests. Stop it.
func Start(target string) (*Proxy, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	p := &Proxy{}
	rp := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(u)
			r.Out.Host = r.In.Host // it is signed
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(rp, w, r) }))
	return p, nil
}

// Stop ends the proxy and its connections.
func (p *Proxy) Stop() {
	p.CloseClientConnections()
	p.Close()
}

// SetDelay makes every request wait before it is passed on.
func (p *Proxy) SetDelay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// SetAway makes every connection end without an answer.
func (p *Proxy) SetAway(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
}

// SetSilent leaves every request without an answer, as a network does that loses all
// packets.
func (p *Proxy) SetSilent(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet != nil {
		close(p.quiet)
		p.quiet = nil
	}
	if silent {
		p.quiet = make(chan struct{})
	}
}

// Disturb does one fault to each of the next requests.
func (p *Proxy) Disturb(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = append(p.next, faults...)
}

func (p *Proxy) take() (delay time.Duration, away bool, f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f = Untouched
	if len(p.next) > 0 {
		f, p.next = p.next[0], p.next[1:]
	}
	return p.delay, p.away, f
}

func (p *Proxy) serve(rp http.Handler, w http.ResponseWriter, r *http.Request) {
	p.Requests.Add(1)
	p.BytesUp.Add(max(r.ContentLength, 0))
	began := time.Now()
	delay, away, f := p.take()
	p.mu.Lock()
	quiet := p.quiet
	p.mu.Unlock()
	if quiet != nil {
		select {
		case <-quiet:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler) // a client that still waits has lost its connection
	}
	time.Sleep(delay)
	switch {
	case away:
		panic(http.ErrAbortHandler)
	case f == Busy:
		http.Error(w, "", http.StatusServiceUnavailable)
		return
	}
	d := &disturbed{ResponseWriter: w, fault: f, down: &p.BytesDown}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.done = append(p.done, Served{r.Method, r.URL.Path, r.Header.Get("Range"), began, time.Now(), d.done})
	}()
	rp.ServeHTTP(d, r)
}

// disturbed is an answer on its way.
type disturbed struct {
	http.ResponseWriter
	fault Fault
	down  *atomic.Int64
	done  int64
}

func (d *disturbed) WriteHeader(status int) {
	if d.fault == Lost {
		panic(http.ErrAbortHandler)
	}
	d.ResponseWriter.WriteHeader(status)
}

func (d *disturbed) Write(b []byte) (int, error) {
	d.down.Add(int64(len(b)))
	switch d.fault {
	case Lost:
		panic(http.ErrAbortHandler)
	case Cut:
		_, _ = d.ResponseWriter.Write(b[:len(b)/2])
		if f, ok := d.ResponseWriter.(http.Flusher); ok {
			f.Flush()
		}
		panic(http.ErrAbortHandler)
	case Flipped:
		if d.done == 0 && len(b) > 0 {
			b = append([]byte(nil), b...)
			b[len(b)/2] ^= 0x40
		}
	}
	n, err := d.ResponseWriter.Write(b)
	d.done += int64(n)
	return n, err
}

// ReadFrom keeps the reverse proxy from going around Write.
func (d *disturbed) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{d}, r)
}

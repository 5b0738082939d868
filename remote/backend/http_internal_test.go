package backend

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/must"
)

// TestSilentServerIsAway: if a server does not answer, the error is ErrAway. If the caller's context ends first, it
// is not ErrAway. net/http reports context.DeadlineExceeded in both cases.
func TestSilentServerIsAway(t *testing.T) {
	stop := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	defer s.Close()
	defer close(stop)
	ask := func(ctx context.Context, timeout time.Duration) error {
		tr := &http.Transport{ResponseHeaderTimeout: timeout}
		defer tr.CloseIdleConnections()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		must.OK(t, err)
		resp, err := (&http.Client{Transport: tr}).Do(req)
		if err == nil {
			_ = resp.Body.Close()
			t.Fatal("there was an answer")
		}
		return errorOfTransport(ctx, "host", err)
	}
	if err := ask(t.Context(), 50*time.Millisecond); !errors.Is(err, ErrAway) {
		t.Errorf("no answer: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := ask(ctx, time.Minute); errors.Is(err, ErrAway) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller's time is over: %v", err)
	}
}

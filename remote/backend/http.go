package backend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/amberfs/amberfs/internal/env"
)

// newTransport returns a transport for many requests at once to one host, with a limit on the
// wait for an answer's first byte.
func newTransport() (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	t.TLSHandshakeTimeout, t.ResponseHeaderTimeout = 5*time.Second, 15*time.Second
	t.MaxIdleConnsPerHost = 64
	t.DisableCompression = true // the bytes must come as they were stored
	file := env.Get("AWS_CA_BUNDLE")
	if file == "" {
		return t, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("AWS_CA_BUNDLE: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("AWS_CA_BUNDLE: no certificate in %s", file)
	}
	t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return t, nil
}

func ofStatus(status int) error {
	switch {
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusNotFound:
		return ErrNotFound
	case status == http.StatusPreconditionFailed, status == http.StatusConflict:
		return ErrChanged
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return ErrDenied
	case status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		return ErrUnsupported
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500:
		return ErrAway
	}
	return fmt.Errorf("the remote answers %d %s", status, http.StatusText(status))
}

// ofTransport is for an error that is not an answer. Of a *url.Error only the
// cause is kept: its URL may carry secrets. Only ctx tells whether
// the caller gave up: the transport's own timeouts are context.DeadlineExceeded too.
func ofTransport(ctx context.Context, host string, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if ctx.Err() != nil {
		return err
	}
	var unknown x509.UnknownAuthorityError
	var invalid *tls.CertificateVerificationError
	if errors.As(err, &unknown) || errors.As(err, &invalid) {
		return fmt.Errorf("%s: its certificate is not trusted (AWS_CA_BUNDLE names another authority): %w", host, err)
	}
	return fmt.Errorf("%s: %w: %w", host, ErrAway, err)
}

// errShort: an answer's body ended before the length that was announced.
var errShort = errors.New("an answer was cut short")

// whole returns the body of an answer of at most so many bytes. It repeats a request twice if
// its body breaks off, which the clients do not.
func whole(ctx context.Context, get func() (body io.ReadCloser, size int64, err error), most int64) (data []byte, err error) {
	for range 3 {
		body, size, err := get()
		if err != nil {
			return nil, err
		}
		if data, err = readAnswer(body, size, most); !errors.Is(err, errShort) || ctx.Err() != nil {
			return data, err
		}
	}
	return nil, errShort
}

// readAnswer reads a body of which the length was announced, unless it is negative.
func readAnswer(body io.ReadCloser, size, most int64) ([]byte, error) {
	defer body.Close()
	if size > most {
		return nil, fmt.Errorf("an answer of %d bytes, %d were requested", size, most)
	}
	data, err := io.ReadAll(io.LimitReader(body, most+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errShort, err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("an answer of more than the requested %d bytes", most)
	}
	if size >= 0 && int64(len(data)) != size {
		return nil, errShort
	}
	return data, nil
}

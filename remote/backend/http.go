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

// newTransport returns a transport for many parallel requests to one host. It fails if the first byte of
// an answer takes too long.
func newTransport() (*http.Transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	t.TLSHandshakeTimeout, t.ResponseHeaderTimeout = 5*time.Second, 15*time.Second
	t.MaxIdleConnsPerHost = 64
	t.DisableCompression = true // otherwise the transport would expand values
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

// errorOfStatus returns the error of this package for a status of HTTP, nil for success.
func errorOfStatus(status int) error {
	switch {
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusNotFound:
		return ErrNotFound
	case status == http.StatusPreconditionFailed, status == http.StatusConflict: // the key exists, or is being written
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

// errorOfTransport wraps the error of a request that got no answer with ErrAway, unless ctx has ended. It
// drops the URL of a *url.Error, which may contain secrets. It checks ctx and not the error, because a timeout
// of the transport is context.DeadlineExceeded, too.
func errorOfTransport(ctx context.Context, host string, err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if ctx.Err() != nil {
		return err
	}

	_, isUnknown := errors.AsType[x509.UnknownAuthorityError](err)
	if _, isInvalid := errors.AsType[*tls.CertificateVerificationError](err); isUnknown || isInvalid {
		return fmt.Errorf("%s: its certificate is not trusted (AWS_CA_BUNDLE names another authority): %w", host, err)
	}

	return fmt.Errorf("%s: %w: %w", host, ErrAway, err)
}

// errCutShort: an answer's body ended before its Content-Length.
var errCutShort = errors.New("an answer was cut short")

// readWhole returns the body of an answer. It fails if the body has more than maxBytes bytes. If the connection
// breaks within the body, readWhole calls get again, at most twice. The client libraries do not repeat such a
// request.
func readWhole(ctx context.Context, get func() (body io.ReadCloser, size int64, err error), maxBytes int64) (data []byte, err error) {
	for range 3 {
		body, size, err := get()
		if err != nil {
			return nil, err
		}
		if data, err = readAnswer(body, size, maxBytes); !errors.Is(err, errCutShort) || ctx.Err() != nil {
			return data, err
		}
	}
	return nil, errCutShort
}

// readAnswer reads a body, and closes it. It fails if the body has more than maxBytes bytes, or a number of bytes
// other than size. If size is negative, the size is not known.
func readAnswer(body io.ReadCloser, size, maxBytes int64) ([]byte, error) {
	defer body.Close()

	if size > maxBytes {
		return nil, fmt.Errorf("an answer of %d bytes, %d were requested", size, maxBytes)
	}

	data, err := io.ReadAll(io.LimitReader(body, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCutShort, err)
	}
	if int64(len(data)) > maxBytes {
		return nil, fmt.Errorf("an answer of more than the requested %d bytes", maxBytes)
	}
	if size >= 0 && int64(len(data)) != size {
		return nil, errCutShort
	}

	return data, nil
}

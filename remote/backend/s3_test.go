package backend_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/remote/backend"
)

// TestS3Refusals: errors of a bucket and of credentials have a text with the reason and a remedy. None of them
// counts as a missing snapshot.
func TestS3Refusals(t *testing.T) {
	var status int
	var code string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
	}))
	defer s.Close()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	const secret = "verysecretkey"
	for _, c := range []struct {
		status  int
		code    string
		keys    bool
		kind    error
		message string
	}{
		{404, "NoSuchKey", true, backend.ErrNotFound, "read ref/v1: not found"},
		{404, "NoSuchBucket", true, backend.ErrNoBucket, "no such bucket: team"},
		{404, "XAdminUserNotFound", true, backend.ErrDenied, "does not accept the credentials from AWS_ACCESS_KEY_ID; set the right ones"},
		{403, "InvalidAccessKeyId", true, backend.ErrDenied, "does not accept the credentials from AWS_ACCESS_KEY_ID"},
		{403, "SignatureDoesNotMatch", true, backend.ErrDenied, "does not accept the credentials"},
		{400, "ExpiredToken", true, backend.ErrDenied, "has expired; set new ones in the environment of"},
		{403, "AccessDenied", true, backend.ErrDenied, "do not allow it"},
		{403, "AccessDenied", false, backend.ErrDenied, "no credentials were found; set AWS_ACCESS_KEY_ID"},
	} {
		status, code = c.status, c.code
		if c.keys {
			t.Setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
			t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
		} else {
			t.Setenv("AWS_ACCESS_KEY_ID", "")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "")
		}
		b := open(t, "s3://team/x?endpoint="+s.URL)
		_, err := backend.Get(t.Context(), b, "ref/v1")
		if !errors.Is(err, c.kind) || c.kind != backend.ErrNotFound && errors.Is(err, backend.ErrNotFound) {
			t.Errorf("%s: %v", c.code, err)
		}
		if err == nil || !strings.Contains(err.Error(), c.message) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v, want %q", c.code, err, c.message)
		}
	}
}

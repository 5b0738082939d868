package backend_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/tests/must"
)

// TestCredentialsFile: requests use the credentials in the file that the URL names, and not those of the
// environment. New credentials in the file are used at the next request.
func TestCredentialsFile(t *testing.T) {
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer s.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "ENVIRONMENT")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "environment")
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	file := filepath.Join(t.TempDir(), "credentials")
	host := strings.TrimPrefix(s.URL, "http://")
	for url, form := range map[string]func(who string) string{
		"s3://team/x?endpoint=" + s.URL + "&credentials=" + file: func(who string) string {
			return "[default]\naws_access_key_id=" + who + "\naws_secret_access_key=s\n"
		},
		"oci://" + host + "/x?credentials=" + file: func(who string) string {
			return `{"auths":{"` + host + `":{"auth":"` + who + `"}}}`
		},
	} {
		b := open(t, url)
		for _, who := range []string{"YTpi", "Yzpk"} { // a:b and c:d in base64, as for a registry
			must.OK(t, os.WriteFile(file, []byte(form(who)), 0o600))
			if _, err := backend.Get(t.Context(), b, "ref/v1"); !errors.Is(err, backend.ErrDenied) {
				t.Errorf("%s: %v", url, err)
			}
			if !strings.Contains(got, who) {
				t.Errorf("%s: it was signed with %q, want %s", url, got, who)
			}
		}
	}
	if _, err := backend.Open("s3://team/x?credentials=relative"); err == nil {
		t.Error("a relative path is accepted")
	}
}

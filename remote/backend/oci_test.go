package backend

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// TestRangeWithToken: requests for ranges use a token if the registry wants one for each repository. When the token
// has expired, the client gets a new one.
func TestRangeWithToken(t *testing.T) {
	data := []byte("0123456789")
	blob := ObjectOf(data)
	issued, left := 0, 0
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			if scope := r.URL.Query().Get("scope"); scope != "repository:team/x:pull" {
				t.Errorf("a token for %q", scope)
			}
			issued, left = issued+1, 2
			_ = json.NewEncoder(w).Encode(map[string]string{"token": fmt.Sprint("t", issued)})
			return
		}
		if left == 0 || r.Header.Get("Authorization") != fmt.Sprint("Bearer t", issued) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+s.URL+`/token",service="test",scope="repository:team/x:pull"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		left--
		if !strings.HasSuffix(r.URL.Path, "/team/x/blobs/sha256:"+blob.Name) || r.Header.Get("Range") != "bytes=2-5" {
			t.Errorf("%s, range %q", r.URL.Path, r.Header.Get("Range"))
		}
		w.Header().Set("Content-Range", "bytes 2-5/10")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(data[2:6])
	}))
	defer s.Close()
	b, err := Open("oci://" + strings.TrimPrefix(s.URL, "http://") + "/team/x")
	must.OK(t, err)
	defer b.CloseIdleConnections()
	for range 5 {
		if got, err := b.GetRange(t.Context(), blob.Key(), 2, 4); err != nil || string(got) != "2345" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if issued != 3 {
		t.Errorf("%d tokens for 5 reads, each good for 2", issued)
	}
}

// FuzzManifest: refInManifest returns a value or an error, and not both.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"artifactType":"` + artifactType + `","annotations":{"` + refAnnotation + `":"eA=="}}`))
	f.Add([]byte(`{"mediaType":"application/vnd.docker.distribution.manifest.v2+json"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if v, err := refInManifest(raw); err != nil && v != nil {
			t.Error("a value and an error")
		}
	})
}

package remote_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/remotetest"
)

// TestForgetVersions: a bucket with versioning loses the versions of forgotten objects. Where the rights for
// that are missing, the receipt and the proof name the versions.
func TestForgetVersions(t *testing.T) {
	endpoint, err := url.Parse(s3(t))
	must.OK(t, err)
	service, err := minio.New(endpoint.Host, &minio.Options{Creds: credentials.NewStaticV4("testkey", "testsecret", "")})
	must.OK(t, err)
	must.OK(t, service.EnableVersioning(t.Context(), "amber"))

	var refuses atomic.Bool // the rights to remove versions are missing
	proxy := httputil.NewSingleHostReverseProxy(endpoint)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuses.Load() && r.Method == http.MethodDelete && r.URL.Query().Has("versionId") {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "<Error><Code>AccessDenied</Code><Message>no</Message></Error>")
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	defer server.Close()

	m := harness.New(t)
	m.Amberfs("remote", "add", "origin", remotetest.S3Prefix(server.URL, "forget"))
	for _, name := range []string{"first", "second"} {
		must.OK(t, os.WriteFile(m.Path(name), []byte("KEY="+name+"-5b0c1f7e93a24d68"), 0o600))
		m.Amberfs("snapshot", "v-"+name)
		m.Amberfs("push", "origin", "v-"+name)
	}

	m.Amberfs("forget", "first", "--now", "--remotes", "--yes")
	if out := m.Amberfs("verify", "--forgotten"); !strings.Contains(out, "nothing that was forgotten is left") {
		t.Error(out)
	}

	refuses.Store(true)
	named := "version [^ ]+ of forget/obj/[0-9a-f]{64}"
	out := m.Amberfs("forget", "second", "--now", "--remotes", "--yes")
	if !regexp.MustCompile("not removed: " + named + " on remote origin").MatchString(out) {
		t.Errorf("the receipt names no version: %s", out)
	}
	if out, err := m.TryAmberfs("verify", "--forgotten"); err == nil || !regexp.MustCompile("remote origin, perhaps: "+named).MatchString(out) {
		t.Errorf("%v: the proof names no version: %s", err, out)
	}

	refuses.Store(false)
	m.Amberfs("forget", "--remotes", "--yes")
	if out := m.Amberfs("verify", "--forgotten"); !strings.Contains(out, "nothing that was forgotten is left") {
		t.Error(out)
	}
}

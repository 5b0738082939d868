package backend

import (
	"net/http"
	"testing"

	"oras.land/oras-go/v2/registry/remote"

	"github.com/amberfs/amberfs/tests/must"
)

func TestRedirects(t *testing.T) {
	for _, c := range []struct {
		registry, method, to string
		followed             bool
	}{
		{"192.0.2.1", "GET", "https://192.0.2.7/blob", true},
		{"192.0.2.1", "HEAD", "https://192.0.2.7/blob", true},
		{"192.0.2.1:5000", "GET", "https://192.0.2.1:5000/other", true},
		{"192.0.2.1", "POST", "https://192.0.2.7/upload", false},
		{"192.0.2.1", "PUT", "https://192.0.2.7/upload", false},
		{"192.0.2.1", "DELETE", "https://192.0.2.7/", false},
		{"192.0.2.1", "GET", "http://127.0.0.3:5993/", false},
		{"192.0.2.1", "GET", "http://[::1]:80/", false},
		{"192.0.2.1", "GET", "http://[::ffff:127.0.0.1]/", false},
		{"192.0.2.1", "GET", "http://localhost/", false},
		{"192.0.2.1", "GET", "http://10.0.0.1/", false},
		{"192.0.2.1", "GET", "http://169.254.169.254/latest/meta-data", false},
		{"192.0.2.1", "GET", "http://[fd00::1]/", false},
		{"192.0.2.1", "GET", "http://100.100.100.200/", false},
		{"192.0.2.1", "GET", "http://0.0.0.0/", false},
		{"127.0.0.1:5991", "GET", "http://127.0.0.3:5993/", true},
		{"127.0.0.1:5991", "POST", "http://127.0.0.3:5993/", false},
	} {
		first, err := http.NewRequestWithContext(t.Context(), c.method, "https://"+c.registry+"/v2/", nil)
		must.OK(t, err)
		next, err := http.NewRequestWithContext(t.Context(), "GET", c.to, nil)
		must.OK(t, err)
		if err := redirectPolicy(c.registry)(next, []*http.Request{first}); (err == nil) != c.followed {
			t.Errorf("%s of %s to %s: %v", c.method, c.registry, c.to, err)
		}
	}

	repo, err := remote.NewRepository("127.0.0.1:1/x")
	must.OK(t, err)
	client, _, err := setClient(repo, "")
	must.OK(t, err)
	if client.Client.CheckRedirect == nil {
		t.Error("a registry's client follows any redirect")
	}
}

package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/amberfs/amberfs/tests/remotetest"
)

// TestSecretsForS3 and TestSecretsForARegistry: credentials in the secrets of a request are used for the volume of the
// request, on two nodes whose daemons have no credentials. No other file has them, and they are removed with the last
// volume or snapshot that needs them.
func TestSecretsForS3(t *testing.T) {
	one, two := start(t, "node1"), start(t, "node2") // the next line sets their environment
	remote := remotetest.S3Prefix(remotetest.S3(t), "x")
	keys := func(secret string) map[string]string {
		return map[string]string{"AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": secret}
	}
	secrets(t, one, two, remote, keys("testsecret"), keys("wrongsecret"))
}

func TestSecretsForARegistry(t *testing.T) {
	one, two := start(t, "node1"), start(t, "node2")
	host := remotetest.Registry(t, "me:$2b$04$p.vozd2cpDjjnCDCCJGosuUv7MPGhlDi../RNLiWmWkPhsGWguhmK")
	config := func(password string) map[string]string {
		auth := base64.StdEncoding.EncodeToString([]byte("me:" + password))
		return map[string]string{dockerConfigKey: fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, auth)}
	}
	secrets(t, one, two, "oci://"+host+"/x", config("secret"), config("wrong"))
}

func secrets(t *testing.T, one, two *plugin, remote string, right, wrong map[string]string) {
	class := map[string]string{remoteParameter: remote}
	created := func(p *plugin, name string, from *csi.VolumeContentSource, secrets map[string]string) (string, error) {
		resp, err := p.controller().CreateVolume(p.ctx(), &csi.CreateVolumeRequest{
			Name: name, VolumeCapabilities: []*csi.VolumeCapability{writer}, VolumeContentSource: from, Parameters: class, Secrets: secrets,
		})
		return resp.GetVolume().GetVolumeId(), err
	}
	create := func(p *plugin, name string, from *csi.VolumeContentSource) string {
		t.Helper()
		return must[string](t)(created(p, name, from, right))
	}
	snapshot := func(name, volume string, secrets map[string]string) (string, error) {
		resp, err := one.controller().CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: volume, Secrets: secrets})
		return resp.GetSnapshot().GetSnapshotId(), err
	}
	a := create(one, "a", nil)
	write(t, filepath.Join(one.publish(a, writer, nil), "f"), "one")
	s := must[string](t)(snapshot("s", a, nil)) // with those of the volume

	for name, url := range map[string]string{"wrong secrets": remote, "a URL with a password": "s3://me:secret@bucket/x", "another kind": "http://127.0.0.1/x"} {
		class[remoteParameter] = url
		_, err := created(one, "refused", nil, map[bool]map[string]string{true: wrong}[url == remote])
		if code := status.Code(err); code != codes.PermissionDenied && code != codes.InvalidArgument {
			t.Errorf("a volume with %s: %v", name, err)
		}
		if text := fmt.Sprint(err); strings.Contains(text, "store-credentials") || strings.Contains(text, "secret@") {
			t.Errorf("the error says where credentials are: %s", text)
		}
	}
	class[remoteParameter] = remote

	if _, err := snapshot("refused", a, wrong); status.Code(err) != codes.PermissionDenied || strings.Contains(err.Error(), "store-credentials") {
		t.Errorf("a push with wrong secrets: %v", err)
	}
	for what, secrets := range map[string]map[string]string{"no secrets": nil, "wrong secrets": wrong} {
		if _, err := created(one, what, nil, secrets); err == nil || status.Code(err) == codes.Internal {
			t.Errorf("a volume with %s: %v", what, err)
		}
		if _, err := created(two, what, fromSnapshot(s), secrets); err == nil || status.Code(err) == codes.Internal {
			t.Errorf("a pull with %s: %v", what, err)
		}
	}
	b := create(two, "b", fromSnapshot(s))
	clone := must[string](t)(created(two, "clone", fromVolume(b), nil))
	must[*csi.DeleteVolumeResponse](t)(two.controller().DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: b}))
	wantFile(t, filepath.Join(two.publish(clone, writer, nil), "f"), "one")
	two.unpublish(clone)

	for _, p := range []*plugin{one, two} {
		if n := len(loginFiles(t, p)); n != 1 {
			t.Errorf("%d files with credentials are there", n)
		}
		for _, v := range append(values(right), values(wrong)...) {
			nowhere(t, filepath.Dir(p.Store), v)
		}
	}
	must[*csi.DeleteVolumeResponse](t)(two.controller().DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: clone}))
	one.unpublish(a)
	must[*csi.DeleteVolumeResponse](t)(one.controller().DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: a}))
	if n := len(loginFiles(t, one)); n != 1 {
		t.Errorf("%d files with credentials are there, and a snapshot needs one", n)
	}
	must[*csi.DeleteSnapshotResponse](t)(one.controller().DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: s, Secrets: right}))
	for _, p := range []*plugin{one, two} {
		if left := loginFiles(t, p); len(left) > 0 {
			t.Errorf("credentials are left: %v", left)
		}
	}
	if _, err := created(two, "late", fromSnapshot(s), right); status.Code(err) != codes.NotFound {
		t.Errorf("a deleted snapshot: %v", err)
	}
}

func loginFiles(t *testing.T, p *plugin) []os.DirEntry {
	t.Helper()
	list, err := os.ReadDir(p.Store + "-credentials")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func values(secrets map[string]string) (out []string) {
	for _, v := range secrets {
		out = append(out, v)
	}
	return out
}

// nowhere fails if a file below a directory, other than the files with credentials, contains a text.
func nowhere(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.Type().IsRegular():
			return err
		case filepath.Base(filepath.Dir(path)) == "store-credentials":
			return nil
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			t.Errorf("%s has a secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

package remote_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/remotetest"
)

// TestImage: an image goes into a registry that asks for a password and comes back, with the
// credentials in a file or from a helper. What fails says why, and imports nothing.
func TestImage(t *testing.T) {
	if !remotetest.Required() {
		t.Skip("make test-remote runs it")
	}
	host := remotetest.Registry(t, "me:$2b$04$p.vozd2cpDjjnCDCCJGosuUv7MPGhlDi../RNLiWmWkPhsGWguhmK") // the password is secret
	docker := t.TempDir()
	t.Setenv("DOCKER_CONFIG", docker)
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	t.Setenv("PATH", docker+":"+os.Getenv("PATH"))
	login := func(config string) {
		must.OK(t, os.WriteFile(filepath.Join(docker, "config.json"), []byte(config), 0o600))
	}
	password := func(p string) string {
		return fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte("me:"+p)))
	}
	helper := "#!/bin/sh\nread host\ntest \"$1 $host\" = 'get " + host + "' && echo '{\"ServerURL\":\"\",\"Username\":\"me\",\"Secret\":\"secret\"}'\n"
	must.OK(t, os.WriteFile(filepath.Join(docker, "docker-credential-amber"), []byte(helper), 0o755))

	a, ref := harness.New(t), host+"/team/image:v1"
	fill(t, a.Dir)
	a.Amberfs("snapshot", "v1")
	refused := func(m *harness.Mount, says string, args ...string) {
		t.Helper()
		out, err := m.TryAmberfs(args...)
		if err == nil || !strings.Contains(out, says) || strings.Count(strings.TrimSpace(out), "\n") > 0 {
			t.Errorf("%s: %v %s", args, err, out)
		}
	}
	refused(a, "docker login", "export", "v1", "--image", ref)
	login(password("wrong"))
	refused(a, "docker login", "export", "v1", "--image", ref)
	login(password("secret"))
	digest := strings.TrimSpace(a.Amberfs("export", "v1", "--image", ref))

	b := harness.New(t)
	before := b.Amberfs("list", "--all")
	login(password("wrong"))
	refused(b, "docker login", "import", "--image", ref)
	login(fmt.Sprintf(`{"credHelpers":{%q:"amber"}}`, host))
	refused(b, "no image", "import", "--image", host+"/team/image:v2")
	refused(b, "no image", "import", "--image", host+"/team/none:v1")
	refused(b, "the tag moved", "import", "--image", ref+"@sha256:"+strings.Repeat("0", 64))
	refused(b, "is not for linux/s390x", "import", "--platform", "linux/s390x", "--image", ref)
	if after := b.Amberfs("list", "--all"); after != before {
		t.Errorf("failed imports left snapshots: %s", after)
	}
	b.Amberfs("import", "--image", ref+"@"+digest)
	harness.CheckSameTree(t, "imported", harness.ReadTree(t, a.Dir), harness.ReadTree(t, b.Dir))
	write(t, b.Path("new"), "1")
	b.Amberfs("snapshot", "v2")
	next := host + "/team/next:v2"
	second := strings.TrimSpace(b.Amberfs("export", "v2", "--image", next))
	if again := strings.TrimSpace(b.Amberfs("export", "v2", "--image", next)); again != second || second == digest {
		t.Errorf("v2 is %s and then %s", second, again)
	}
	if _, err := exec.LookPath("skopeo"); err == nil {
		out, err := exec.Command("skopeo", "inspect", "--tls-verify=false", "--creds", "me:secret", "--format", "{{.Digest}} {{len .Layers}}", "docker://"+next).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != second+" 2" {
			t.Errorf("skopeo: %v %s", err, got)
		}
	}
}

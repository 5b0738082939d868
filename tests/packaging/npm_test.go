package packaging_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// standIn is packed instead of amberfs: it is small, and shows what it is started with.
const standIn = `#!/bin/sh
trap 'exit 5' INT
echo "$0 $*"
cat
exit 3
`

// cpus are Node's words for processors.
var cpus = map[string]string{"amd64": "x64", "arm64": "arm64"}

// npmPackages packs the stand-in, and installs the packages without a network. shim is the
// command that is installed, and program what it has to run.
func npmPackages(t *testing.T) (packed, shim, program string) {
	t.Helper()
	harness.SkipWithout(t, "node", "npm")
	cpu, ok := cpus[runtime.GOARCH]
	if !ok {
		t.Skip("there is no package for this processor")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "program")
	must.OK(t, os.WriteFile(file, []byte(standIn), 0o755))
	packed = filepath.Join(dir, "packed")
	settings := []string{"npm_config_cache=" + filepath.Join(dir, "cache"), "npm_config_update_notifier=false", "npm_config_offline=true"}
	npm := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), settings...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	npm(filepath.Join(root, "packaging/npm/pack"), "v1.2.3", packed, file, file)
	npm("npm", "install", "--global", "--prefix", filepath.Join(dir, "prefix"), "--ignore-scripts", "--no-audit", "--no-fund",
		filepath.Join(packed, "amberfs-1.2.3.tgz"), filepath.Join(packed, "amberfs-linux-"+cpu+"-1.2.3.tgz"))
	return packed, filepath.Join(dir, "prefix/bin/amberfs"), filepath.Join(dir, "prefix/lib/node_modules/@amberfs/linux-"+cpu+"/bin/amberfs")
}

// TestNPM asks of the shim what needs no registry. tests/packages installs it from one and runs amberfs.
func TestNPM(t *testing.T) {
	packed, shim, program := npmPackages(t)
	for _, name := range []string{"amberfs-1.2.3.tgz", "amberfs-linux-x64-1.2.3.tgz", "amberfs-linux-arm64-1.2.3.tgz"} {
		if _, err := os.Stat(filepath.Join(packed, name)); err != nil {
			t.Error(err)
		}
	}
	if st, err := os.Stat(program); err != nil || st.Mode().Perm()&0o111 != 0o111 {
		t.Fatalf("the program is not installed as one: %v, %v", st, err)
	}

	// Arguments, standard input and the exit status.
	cmd := exec.Command(shim, "run", "--", "a b")
	cmd.Stdin = strings.NewReader("input\n")
	out, err := cmd.Output()
	if want := program + " run -- a b\ninput\n"; string(out) != want || exitStatus(err) != 3 {
		t.Errorf("it prints %q and exits with %v; want %q and 3", out, err, want)
	}

	// A terminal's Ctrl-C is for the program, and other signals too.
	if state := signalled(t, shim, func(pid int) error { return syscall.Kill(-pid, syscall.SIGINT) }); state.ExitStatus() != 5 {
		t.Errorf("after Ctrl-C it ends with %v, not as the program", state)
	}
	if state := signalled(t, shim, func(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }); state.Signal() != syscall.SIGTERM {
		t.Errorf("after SIGTERM it ends with %v, not as the program", state)
	}

	// One sentence where there is no program.
	elsewhere := filepath.Join(packed, "elsewhere.js")
	must.OK(t, os.WriteFile(elsewhere, []byte("Object.defineProperty(process, 'platform', { value: 'darwin' });"), 0o644))
	sentence(t, exec.Command("node", "-r", elsewhere, shim), `for Linux on x64 and arm64, not for darwin on \w+; see https://\S+/install\.md\n$`)
	must.OK(t, os.Remove(program))
	sentence(t, exec.Command("node", shim), `the package @amberfs/linux-\w+ is missing: install amberfs again, with optional dependencies\n$`)
}

func sentence(t *testing.T, cmd *exec.Cmd, want string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if exitStatus(err) != 1 || !regexp.MustCompile(`^amberfs: .*`+want).Match(out) || strings.Count(string(out), "\n") != 1 {
		t.Errorf("it prints %q and exits with %v", out, err)
	}
}

func exitStatus(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// signalled sends a signal to the shim, in a process group of its own, when the program
// runs, and returns how the shim ends.
func signalled(t *testing.T, shim string, send func(pid int) error) syscall.WaitStatus {
	t.Helper()
	cmd := exec.Command(shim)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe() // the program ends with it at the latest
	must.OK(t, err)
	defer in.Close()
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Errorf("the program does not run: %v", err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	// A shell between two commands notes a signal and begins the next one: it gets another.
	if !harness.Poll(func() bool {
		select {
		case <-ended:
			return true
		default:
			_ = send(cmd.Process.Pid) // it may have ended since
			return false
		}
	}) {
		t.Error("it does not end")
		in.Close()
	}
	<-ended
	return cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// TestServerJSON checks what the MCP registry checks of server.json (its schema of
// 2025-12-11), and that it names the package. `make test-packages` checks it against the schema itself.
func TestServerJSON(t *testing.T) {
	var server struct {
		Schema      string `json:"$schema"`
		Name        string
		Title       string
		Description string
		Version     string
		Packages    []struct {
			RegistryType, Identifier, Version string
			Transport                         struct{ Type string }
			PackageArguments                  []struct{ Type, Value string }
		}
	}
	var npm struct {
		Name, Version, MCPName string
		Scripts                map[string]string
		OptionalDependencies   map[string]string
	}
	for name, v := range map[string]any{"server.json": &server, "amberfs/package.json": &npm} {
		b, err := os.ReadFile(filepath.Join(root, "packaging/npm", name))
		must.OK(t, err)
		must.OK(t, json.Unmarshal(b, v))
	}
	if server.Schema != "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json" ||
		!regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`).MatchString(server.Name) ||
		server.Description == "" || len(server.Description) > 100 || len(server.Title) > 100 {
		t.Errorf("the registry refuses it: %+v", server)
	}
	if len(server.Packages) != 1 || len(server.Packages[0].PackageArguments) != 1 {
		t.Fatalf("it has other packages: %+v", server)
	}
	p := server.Packages[0]
	if p.RegistryType != "npm" || p.Identifier != npm.Name || p.Transport.Type != "stdio" ||
		p.PackageArguments[0].Type != "positional" || p.PackageArguments[0].Value != "mcp" || server.Name != npm.MCPName {
		t.Errorf("it names another package or command: %+v, %+v", server, npm)
	}
	if len(npm.Scripts) > 0 {
		t.Errorf("npm 12 runs no scripts of a package, and it has %v", npm.Scripts)
	}
	for _, version := range []string{server.Version, p.Version, npm.Version, npm.OptionalDependencies["@amberfs/linux-x64"], npm.OptionalDependencies["@amberfs/linux-arm64"]} {
		if version != "0.0.0" {
			t.Errorf("a version is %q, and not the one that packaging/npm/pack replaces", version)
		}
	}
}

// TestArchivesAreFound: mise (its backend github) and ubi take from a release the archive
// whose name has the system and the processor as words, and from it the first file that is
// called amberfs.
func TestArchivesAreFound(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	must.OK(t, err)
	if !strings.Contains(string(b), `name_template: "{{.ProjectName}}-{{.Version}}-{{.Os}}-{{.Arch}}"`+"\n    formats: [tar.gz]\n") {
		t.Error("archives have other names than amberfs-VERSION-linux-amd64.tar.gz")
	}
	dest := t.TempDir()
	install(t, dest)
	must.OK(t, filepath.WalkDir(dest, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() == "amberfs" && !strings.HasSuffix(path, "/bin/amberfs") {
			t.Errorf("%s is taken for the program", path)
		}
		return err
	}))
}

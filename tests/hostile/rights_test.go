package hostile_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// The callers of TestRights: two users beside root, which mounted with allow_other.
const (
	root  = iota
	owner // of the workspace's root directory
	other
)

const (
	ownerID = 65531
	otherID = 65532
)

// A right is a line of the table "Who may do what" in docs/reference/control-files.md, as one thing to try:
// a shell script in the workspace, which fails for a user without the right.
type right struct {
	script string
	// may are those who may, of root, owner and other, in a root directory of mode
	// 0755, 0777 and 1777.
	may [3][]int
}

func all(who ...int) [3][]int { return [3][]int{who, who, who} }

var (
	everybody  = all(root, owner, other)
	onlyOwner  = all(root, owner)
	onlyRoot   = all(root)
	nobody     = all()
	whoWrites  = [3][]int{{root, owner}, {root, owner, other}, {root, owner, other}}
	whoChanges = [3][]int{{root, owner}, {root, owner, other}, {root, owner}}
)

// asked is a request through a file of the caller's own.
func asked(request string) string {
	return fmt.Sprintf("f=.snapshots/call.$(id -u).$$; echo '%s' > $f", request)
}

// rights are tried in this order; each makes what it needs, and %d is a number of its own.
var rights = []right{
	// A user that can look into the root directory.
	{"ls .snapshots && ls .forks && test -d .snapshots/v && test -d .forks/f", everybody},
	{"cat .snapshots/list .snapshots/status .snapshots/policy .snapshots/README .snapshots/info@v", everybody},
	{asked(`{"op":"list"}`), whoWrites},
	{asked(`{"op":"show","name":"v"}`), whoWrites},
	{asked(`{"op":"forks"}`), whoWrites},
	{asked(`{"op":"status"}`), whoWrites},
	{asked(`{"op":"policy"}`), whoWrites},
	{"cat .snapshots/v/open", everybody},
	{"cat .snapshots/v/closed", onlyOwner},
	{"ls .snapshots/v/private", onlyOwner},
	{"cat .forks/f/closed", onlyOwner},
	// Owns the root directory.
	{"cat .snapshots/log", onlyOwner},
	{"cat .snapshots/diff@v", onlyOwner},
	{"stat .snapshots/diff@v", onlyOwner},
	{"cat .snapshots/stat@base..v", onlyOwner},
	{asked(`{"op":"diff","a":"v"}`), onlyOwner},
	{asked(`{"op":"changes","a":"v"}`), onlyOwner},
	{asked(`{"op":"hunks","a":"v","path":"open"}`), onlyOwner},
	{asked(`{"op":"file","path":"closed"}`), onlyOwner},
	{asked(`{"op":"history","path":"open"}`), onlyOwner},
	{asked(`{"op":"size","path":"closed"}`), onlyOwner},
	{"cat .snapshots/size@v", onlyOwner},
	{asked(`{"op":"events"}`), onlyOwner},
	// May write to it.
	{"mkdir .snapshots/a%d", whoWrites},
	{"echo b%d > .snapshots/create", whoWrites},
	{asked(`{"op":"snapshot","name":"c%d"}`), whoWrites},
	{"mkdir .forks/a%d", whoWrites},
	{"echo v b%d > .snapshots/fork", whoWrites},
	{asked(`{"op":"fork","name":"c%d"}`), whoWrites},
	{asked(`{"op":"claim","label":"d%d"}`), whoWrites},
	{"echo v > .snapshots/export", whoWrites},
	{asked(`{"op":"export","name":"v"}`), whoWrites},
	// The same, and in a sticky directory its owner alone. What the first one did is
	// taken back, or done to something else, by the next.
	{"mv .snapshots/restore .snapshots/restore@v", onlyOwner},
	{"echo v > .snapshots/restore", onlyOwner},
	{"echo v open > .snapshots/restore", onlyOwner},
	{asked(`{"op":"restore","name":"v","dry_run":true}`), onlyOwner},
	{asked(`{"op":"revert","path":"open","name":"v"}`), onlyOwner},
	{asked(`{"op":"merge","fork":"f"}`), onlyOwner},
	{asked(`{"op":"pin","names":["v"],"pinned":true}`), whoChanges},
	{asked(`{"op":"pin","names":["v"],"pinned":false}`), whoChanges},
	{asked(`{"op":"set-policy","patch":{}}`), onlyRoot},
	{"echo '{}' > .snapshots/policy", onlyRoot},
	{"mv .snapshots/renamed%d .snapshots/r%d", whoChanges},
	{asked(`{"op":"rename","from":"asked%d","to":"s%d"}`), whoChanges},
	{"rmdir .snapshots/removed%d", whoChanges},
	{asked(`{"op":"remove","names":["going%d"]}`), whoChanges},
	{asked(`{"op":"compact","names":["one%d","two%d"],"name":"t%d"}`), whoChanges},
	{"mv .forks/renamed%d .forks/r%d", whoChanges},
	{asked(`{"op":"rename-fork","from":"asked%d","to":"s%d"}`), whoChanges},
	{"rmdir .forks/ended%d", whoChanges},
	{asked(`{"op":"delete-fork","name":"going%d"}`), whoChanges},
	// Owns the store, in main.
	{asked(`{"op":"freeze","for":"1ms"}`) + " && " + asked(`{"op":"thaw"}`), onlyRoot},
	{asked(`{"op":"gc"}`), onlyRoot},
	{asked(`{"op":"verify"}`), onlyRoot},
	{asked(`{"op":"du"}`), onlyRoot},
	{asked(`{"op":"remotes"}`), onlyRoot},
	{"echo v there > .snapshots/push", onlyRoot},
	{asked(`{"op":"push","remote":"there","snapshots":["v"]}`), onlyRoot},
	{asked(`{"op":"fork","name":"from%d","snapshot":"there@v"}`), onlyRoot},
	{asked(`{"op":"claim","label":"from%d","from":"there@v"}`), onlyRoot},
	// Only over the socket.
	{asked(`{"op":"umount"}`), nobody},
	{asked(`{"op":"import","from":"tar"}`), nobody},
	{asked(`{"op":"tar","name":"v"}`), nobody},
	{asked(`{"op":"open","name":"v"}`), nobody},
	{asked(`{"op":"exported","name":"v"}`), nobody},
	{asked(`{"op":"add-remote","name":"r"}`), nobody},
	{asked(`{"op":"remove-remote","name":"r"}`), nobody},
}

// snapshotsFor and forksFor are what a right of the number of %d takes for granted.
var (
	snapshotsFor = []string{"renamed%d", "asked%d", "removed%d", "going%d", "one%d", "two%d"}
	forksFor     = []string{"renamed%d", "asked%d", "ended%d", "going%d"}
)

// TestRights tries the table of docs/reference/control-files.md, line by line, as root, as the owner of the
// root directory and as another user.
func TestRights(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to be other users")
	}
	for i, mode := range []string{"0755", "0777", "1777"} {
		t.Run(mode, func(t *testing.T) {
			m := harness.New(t, "-o", "allow_other")
			run := func(who int, script string) (string, error) {
				return as([]uint32{0, ownerID, otherID}[who], m.Dir, script)
			}
			setup := fmt.Sprintf(`chmod %s . && echo one > open && echo one > closed && chmod 600 closed &&
				mkdir private && chmod 700 private && chown -R %d:%d . && mkdir .snapshots/v .forks/f && echo two > open`, mode, ownerID, ownerID)
			if out, err := run(root, setup); err != nil {
				t.Fatal(out, err)
			}
			m.Amberfs("remote", "add", "there", "file://"+t.TempDir())
			for n, r := range rights {
				for who, name := range []string{"root", "the owner", "another user"} {
					number := 10*n + who
					numbered := func(s string) string { return strings.ReplaceAll(s, "%d", fmt.Sprint(number)) }
					for _, s := range snapshotsFor {
						if strings.Contains(r.script, s) {
							must.OK(t, os.Mkdir(m.Path(".snapshots", numbered(s)), 0o755))
						}
					}
					for _, s := range forksFor {
						if strings.Contains(r.script, s) {
							must.OK(t, os.Mkdir(m.Path(".forks", numbered(s)), 0o755))
						}
					}
					may := false
					for _, one := range r.may[i] {
						may = may || one == who
					}
					if out, err := run(who, numbered(r.script)); (err == nil) != may {
						t.Errorf("%s: %s: %v (may: %v): %s", name, numbered(r.script), err, may, out)
					}
				}
			}
		})
	}
}

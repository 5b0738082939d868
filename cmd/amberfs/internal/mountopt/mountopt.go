// Package mountopt reads what follows -o: amberfs's own options, and the words
// that mount(8) and fstab(5) pass to every file system. An unknown word is
// refused by name, so that a misspelt option never looks accepted.
package mountopt

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/amberfs/amberfs/fusefs"
)

type Options struct {
	fusefs.Flags
	Metrics  string // HOST:PORT; "": none
	NonEmpty bool   // the mount point may have entries
	Remount  bool
	Prefetch string // none, tree or all; "": tree
	Timeout  time.Duration
	Hard     bool
}

// option is one word or a pair of opposite words.
type option struct {
	on, off string // off is "" where there is no opposite
	value   string // what follows "=", for the list; "": nothing
	help    string
	flag    func(*Options) *bool
	set     func(*Options, string) error // where value is not ""
	get     func(Options) string         // the value, "" for the default
}

var all = []option{
	{on: "ro", off: "rw", help: "nothing can be changed", flag: func(o *Options) *bool { return &o.ReadOnly }},
	{on: "allow_other", help: "other users can access the mount. Ordinary users need user_allow_other in /etc/fuse.conf", flag: func(o *Options) *bool { return &o.AllowOther }},
	{on: "snapdir", value: "visible|hidden", help: "whether .snapshots and .forks are listed in the root. Default: hidden",
		set: func(o *Options, v string) error {
			o.SnapdirVisible = v == "visible"
			return oneOf(v, "visible", "hidden")
		},
		get: func(o Options) string {
			if o.SnapdirVisible {
				return "visible"
			}
			return ""
		}},
	{on: "acl", off: "noacl", help: "POSIX access control lists", flag: func(o *Options) *bool { return &o.ACL }},
	{on: "noxattr", help: "no extended attributes. New files are cheaper", flag: func(o *Options) *bool { return &o.NoXattr }},
	{on: "handles", off: "nohandles", help: "open_by_handle_at(2) works. Overlays in the mount fail with ESTALE from Linux 6.16 on", flag: func(o *Options) *bool { return &o.Handles }},
	{on: "dev", off: "nodev", help: "device nodes work (root)", flag: func(o *Options) *bool { return &o.Dev }},
	{on: "suid", off: "nosuid", help: "set-user-ID bits work (root)", flag: func(o *Options) *bool { return &o.Suid }},
	{on: "noexec", off: "exec", help: "programs in the mount cannot be executed", flag: func(o *Options) *bool { return &o.NoExec }},
	{on: "lowlatency", help: "keep processors out of idle states during bursts of requests (root). Faster, uses more power", flag: func(o *Options) *bool { return &o.LowLatency }},
	{on: "prefetch", value: "none|tree|all", help: "what is fetched from a remote before it is read. Default: tree (names and attributes)",
		set: func(o *Options, v string) error { o.Prefetch = v; return oneOf(v, "none", "tree", "all") },
		get: func(o Options) string { return o.Prefetch }},
	{on: "timeout", value: "30s", help: "how long a read waits for a remote. Default: 30s",
		set: func(o *Options, v string) error {
			d, err := time.ParseDuration(v)
			if err != nil || d <= 0 {
				return errors.New("a time such as 30s")
			}
			o.Timeout = d
			return nil
		},
		get: func(o Options) string {
			if o.Timeout == 0 {
				return ""
			}
			return o.Timeout.String()
		}},
	{on: "hard", off: "soft", help: "such a read waits until the remote is back, or the reader is killed", flag: func(o *Options) *bool { return &o.Hard }},
	{on: "metrics", value: "HOST:PORT", help: "serve metrics for Prometheus over HTTP",
		set: func(o *Options, v string) error {
			if _, port, err := net.SplitHostPort(v); err != nil || port == "" {
				return errors.New("HOST:PORT, such as localhost:9100")
			}
			o.Metrics = v
			return nil
		},
		get: func(o Options) string { return o.Metrics }},
	{on: "debug", help: "log every request in STORE/amberfs.log", flag: func(o *Options) *bool { return &o.Debug }},
	{on: "nonempty", help: "mount over a directory that is not empty, and hide what is in it", flag: func(o *Options) *bool { return &o.NonEmpty }},
	{on: "remount", help: "change ro, rw, exec, noexec of a mount (root)", flag: func(o *Options) *bool { return &o.Remount }},
}

// generic are the words of mount(8) and fstab(5) that need nothing here.
// mount(8) repeats some of the kernel's at a remount.
var generic = strings.Fields(`defaults auto noauto user nouser users owner group nofail _netdev async
	atime noatime relatime norelatime strictatime nostrictatime lazytime nolazytime diratime nodiratime
	mand nomand silent loud iversion noiversion default_permissions
	comment fsname subtype user_id group_id rootmode max_read`)

// Parse reads the values of -o flags, each a comma-separated list. Of two words
// that contradict each other the later one counts, as in mount(8).
func Parse(lists ...string) (Options, error) {
	var o Options
	for _, list := range lists {
		for word := range strings.SplitSeq(list, ",") {
			if err := o.parse(strings.TrimSpace(word)); err != nil {
				return Options{}, err
			}
		}
	}
	return o, nil
}

func (o *Options) parse(word string) error {
	key, value, hasValue := strings.Cut(word, "=")
	for _, a := range all {
		switch {
		case a.set != nil && key == a.on:
			if err := a.set(o, value); err != nil {
				return fmt.Errorf("the mount option %s takes %w, not %q", key, err, value)
			}
			return nil
		case a.flag != nil && !hasValue && (key == a.on || key == a.off && key != ""):
			*a.flag(o) = key == a.on
			return nil
		}
	}
	if word == "" || strings.HasPrefix(key, "x-") || strings.HasPrefix(key, "X-") || slices.Contains(generic, key) {
		return nil
	}
	return fmt.Errorf("unknown mount option %q (known: %s)", word, strings.Join(Words(), ", "))
}

// String writes the options so that Parse reads the same ones.
func (o Options) String() string {
	var words []string
	for _, a := range all {
		if a.flag != nil && *a.flag(&o) {
			words = append(words, a.on)
		} else if a.get != nil && a.get(o) != "" {
			words = append(words, a.on+"="+a.get(o))
		}
	}
	return strings.Join(words, ",")
}

// Words are all options as a user writes them.
func Words() []string {
	var words []string
	for _, a := range all {
		words = append(words, a.usage())
		if a.off != "" {
			words = append(words, a.off)
		}
	}
	return words
}

// Help is the list of options for the help text.
func Help() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, a := range all {
		first := a.usage()
		if a.off != "" {
			first += ", " + a.off
		}
		fmt.Fprintf(w, "  %s\t%s\n", first, a.help)
	}
	_ = w.Flush()
	return b.String()
}

func (a option) usage() string {
	if a.value == "" {
		return a.on
	}
	return a.on + "=" + a.value
}

func oneOf(v string, words ...string) error {
	if slices.Contains(words, v) {
		return nil
	}
	return errors.New(strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1])
}

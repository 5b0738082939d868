// Package mountopt parses the argument of -o: amberfs's own options, and the words
// that mount(8) and fstab(5) pass to every file system. An unknown word is an error
// that names the word, so that a misspelt option is not ignored.
package mountopt

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/amberfs/amberfs/fusefs"
)

// Options are the parsed mount options.
type Options struct {
	fusefs.Flags
	NoACL    bool   // the mount of `amberfs run`, which has ACLs by default, has none
	Snapdir  string // visible or hidden; "": hidden
	Metrics  string // HOST:PORT; "": none
	NonEmpty bool   // the mount point may have entries
	Remount  bool
	Prefetch string // none, tree or all; "": tree
	Timeout  string // a time.Duration; "": the default
	Hard     bool
}

// option is one word or a pair of opposite words.
type option struct {
	on, off string // off is "" for an option without an opposite
	value   string // the words that may follow "=", separated by |, or an example; "" for an option without a value
	help    string
	flag    func(*Options) *bool   // the field that on sets and off clears
	not     func(*Options) *bool   // the field that off sets and on clears; nil if off needs none
	text    func(*Options) *string // the field with the value, if value is not ""
}

var options = []option{
	{on: "ro", off: "rw", help: "nothing can be changed", flag: func(o *Options) *bool { return &o.ReadOnly }},
	{on: "allow_other", help: "other users can access the mount. Ordinary users need user_allow_other in /etc/fuse.conf", flag: func(o *Options) *bool { return &o.AllowOther }},
	{on: "snapdir", value: "visible|hidden", help: "whether .snapshots and .forks are listed in the root. Default: hidden", text: func(o *Options) *string { return &o.Snapdir }},
	{on: "acl", off: "noacl", help: "POSIX access control lists, the default in a run", flag: func(o *Options) *bool { return &o.ACL }, not: func(o *Options) *bool { return &o.NoACL }},
	{on: "noxattr", help: "no extended attributes. New files are cheaper", flag: func(o *Options) *bool { return &o.NoXattr }},
	{on: "handles", off: "nohandles", help: "open_by_handle_at(2) works. Overlays in the mount fail with ESTALE from Linux 6.16 on", flag: func(o *Options) *bool { return &o.Handles }},
	{on: "dev", off: "nodev", help: "device nodes work (root)", flag: func(o *Options) *bool { return &o.Dev }},
	{on: "suid", off: "nosuid", help: "set-user-ID bits work (root)", flag: func(o *Options) *bool { return &o.Suid }},
	{on: "noexec", off: "exec", help: "programs in the mount cannot be executed", flag: func(o *Options) *bool { return &o.NoExec }},
	{on: "prefetch", value: "none|tree|all", help: "what is fetched from a remote before it is read. Default: tree (names and attributes)", text: func(o *Options) *string { return &o.Prefetch }},
	{on: "timeout", value: "30s", help: "how long a read waits for a remote. Default: 30s", text: func(o *Options) *string { return &o.Timeout }},
	{on: "hard", off: "soft", help: "such a read waits until the remote is back, or the reader is killed", flag: func(o *Options) *bool { return &o.Hard }},
	{on: "metrics", value: "HOST:PORT", help: "serve metrics for Prometheus over HTTP", text: func(o *Options) *string { return &o.Metrics }},
	{on: "debug", help: "log every request in STORE/amberfs.log", flag: func(o *Options) *bool { return &o.Debug }},
	{on: "nonempty", help: "mount over a directory that is not empty, and hide what is in it", flag: func(o *Options) *bool { return &o.NonEmpty }},
	{on: "remount", help: "change ro, rw, exec, noexec of a mount (root)", flag: func(o *Options) *bool { return &o.Remount }},
}

// generic are words of mount(8) and fstab(5) that are accepted without effect. They include the options of
// the kernel that mount(8) passes at a remount.
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

	o.SnapdirVisible = o.Snapdir == "visible"
	return o, nil
}

func (o *Options) parse(word string) error {
	key, value, hasValue := strings.Cut(word, "=")

	for _, a := range options {
		switch {
		case a.text != nil && key == a.on:
			*a.text(o) = value
			return a.check(value)
		case a.flag != nil && !hasValue && (key == a.on || key == a.off && key != ""):
			if *a.flag(o) = key == a.on; a.not != nil {
				*a.not(o) = key == a.off
			}
			return nil
		}
	}
	if word == "" || strings.HasPrefix(key, "x-") || strings.HasPrefix(key, "X-") || slices.Contains(generic, key) {
		return nil
	}

	return fmt.Errorf("unknown mount option %q (known: %s)", word, strings.Join(Words(), ", "))
}

// check returns an error if the option cannot have the value v.
func (a option) check(v string) error {
	words := strings.Split(a.value, "|")
	wanted, ok := strings.Join(words, " or "), slices.Contains(words, v)
	switch a.on {
	case "timeout":
		d, err := time.ParseDuration(v)
		wanted, ok = "a time such as "+wanted, err == nil && d > 0
	case "metrics":
		_, port, err := net.SplitHostPort(v)
		wanted, ok = wanted+", such as localhost:9100", err == nil && port != ""
	}
	if !ok {
		return fmt.Errorf("the mount option %s takes %s, not %q", a.on, wanted, v)
	}

	return nil
}

// String returns the options as a list for -o, from which Parse returns the same Options.
func (o Options) String() string {
	var words []string
	for _, a := range options {
		if a.flag != nil && *a.flag(&o) {
			words = append(words, a.on)
		} else if a.not != nil && *a.not(&o) {
			words = append(words, a.off)
		} else if a.text != nil && *a.text(&o) != "" {
			words = append(words, a.on+"="+*a.text(&o))
		}
	}

	return strings.Join(words, ",")
}

// Words returns all options as a user writes them.
func Words() []string {
	var words []string
	for _, a := range options {
		words = append(words, a.usage())
		if a.off != "" {
			words = append(words, a.off)
		}
	}

	return words
}

// Help returns the table of options for the help text.
func Help() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, a := range options {
		first := a.usage()
		if a.off != "" {
			first += ", " + a.off
		}

		fmt.Fprintf(w, "  %s\t%s\n", first, a.help)
	}

	_ = w.Flush()

	return b.String()
}

// usage returns the option with its possible values.
func (a option) usage() string {
	if a.value == "" {
		return a.on
	}
	return a.on + "=" + a.value
}

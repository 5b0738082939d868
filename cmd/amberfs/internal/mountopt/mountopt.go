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
	NoACL    bool   // switches off ACLs, which the mount of `amberfs run` has by default
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
	name, opposite string // opposite is "" for an option without one
	values         string // the words that may follow "=", separated by |, or an example; "" for an option without a value
	help           string
	flagField      func(*Options) *bool   // the field that the option sets and its opposite clears
	oppositeField  func(*Options) *bool   // the field that the opposite sets and the option clears; nil if there is none
	valueField     func(*Options) *string // the field with the value, if values is not ""
}

var options = []option{
	{name: "ro", opposite: "rw", help: "nothing can be changed", flagField: func(o *Options) *bool { return &o.ReadOnly }},
	{name: "allow_other", help: "other users can access the mount. Ordinary users need user_allow_other in /etc/fuse.conf", flagField: func(o *Options) *bool { return &o.AllowOther }},
	{name: "snapdir", values: "visible|hidden", help: "whether .snapshots and .forks are listed in the root. Default: hidden", valueField: func(o *Options) *string { return &o.Snapdir }},
	{name: "acl", opposite: "noacl", help: "POSIX access control lists, the default in a run", flagField: func(o *Options) *bool { return &o.ACL }, oppositeField: func(o *Options) *bool { return &o.NoACL }},
	{name: "noxattr", help: "no extended attributes. New files are cheaper", flagField: func(o *Options) *bool { return &o.NoXattr }},
	{name: "handles", opposite: "nohandles", help: "open_by_handle_at(2) works. Overlays in the mount fail with ESTALE from Linux 6.16 on", flagField: func(o *Options) *bool { return &o.Handles }},
	{name: "dev", opposite: "nodev", help: "device nodes work (root)", flagField: func(o *Options) *bool { return &o.Dev }},
	{name: "suid", opposite: "nosuid", help: "set-user-ID bits work (root)", flagField: func(o *Options) *bool { return &o.Suid }},
	{name: "noexec", opposite: "exec", help: "programs in the mount cannot be executed", flagField: func(o *Options) *bool { return &o.NoExec }},
	{name: "prefetch", values: "none|tree|all", help: "what is fetched from a remote before it is read. Default: tree (names and attributes)", valueField: func(o *Options) *string { return &o.Prefetch }},
	{name: "timeout", values: "30s", help: "how long a read waits for a remote. Default: 30s", valueField: func(o *Options) *string { return &o.Timeout }},
	{name: "hard", opposite: "soft", help: "such a read waits until the remote is back, or the reader is killed", flagField: func(o *Options) *bool { return &o.Hard }},
	{name: "metrics", values: "HOST:PORT", help: "serve metrics for Prometheus over HTTP", valueField: func(o *Options) *string { return &o.Metrics }},
	{name: "debug", help: "log every request in STORE/amberfs.log", flagField: func(o *Options) *bool { return &o.Debug }},
	{name: "nonempty", help: "mount over a directory that is not empty, and hide what is in it", flagField: func(o *Options) *bool { return &o.NonEmpty }},
	{name: "remount", help: "change ro, rw, exec, noexec of a mount (root)", flagField: func(o *Options) *bool { return &o.Remount }},
}

// ignoredWords are words of mount(8) and fstab(5) that are accepted without effect. They include the options of
// the kernel that mount(8) passes at a remount.
var ignoredWords = strings.Fields(`defaults auto noauto user nouser users owner group nofail _netdev async
	atime noatime relatime norelatime strictatime nostrictatime lazytime nolazytime diratime nodiratime
	mand nomand silent loud iversion noiversion default_permissions
	comment fsname subtype user_id group_id rootmode max_read`)

// Parse reads the values of -o flags, each a comma-separated list. Of two words
// that contradict each other the later one counts, as in mount(8).
func Parse(lists ...string) (Options, error) {
	var o Options
	for _, list := range lists {
		for word := range strings.SplitSeq(list, ",") {
			if err := o.parseWord(strings.TrimSpace(word)); err != nil {
				return Options{}, err
			}
		}
	}

	o.SnapdirVisible = o.Snapdir == "visible"
	return o, nil
}

func (o *Options) parseWord(word string) error {
	key, value, hasValue := strings.Cut(word, "=")

	for _, a := range options {
		switch {
		case a.valueField != nil && key == a.name:
			*a.valueField(o) = value
			return a.checkValue(value)
		case a.flagField != nil && !hasValue && (key == a.name || key == a.opposite && key != ""):
			if *a.flagField(o) = key == a.name; a.oppositeField != nil {
				*a.oppositeField(o) = key == a.opposite
			}
			return nil
		}
	}
	if word == "" || strings.HasPrefix(key, "x-") || strings.HasPrefix(key, "X-") || slices.Contains(ignoredWords, key) {
		return nil
	}

	return fmt.Errorf("unknown mount option %q (known: %s)", word, strings.Join(Words(), ", "))
}

// checkValue returns an error if the option cannot have the value v.
func (a option) checkValue(v string) error {
	words := strings.Split(a.values, "|")
	wanted, ok := strings.Join(words, " or "), slices.Contains(words, v)
	switch a.name {
	case "timeout":
		d, err := time.ParseDuration(v)
		wanted, ok = "a time such as "+wanted, err == nil && d > 0
	case "metrics":
		_, port, err := net.SplitHostPort(v)
		wanted, ok = wanted+", such as localhost:9100", err == nil && port != ""
	}
	if !ok {
		return fmt.Errorf("the mount option %s takes %s, not %q", a.name, wanted, v)
	}

	return nil
}

// String returns the options as a list for -o, from which Parse returns the same Options.
func (o Options) String() string {
	var words []string
	for _, a := range options {
		if a.flagField != nil && *a.flagField(&o) {
			words = append(words, a.name)
		} else if a.oppositeField != nil && *a.oppositeField(&o) {
			words = append(words, a.opposite)
		} else if a.valueField != nil && *a.valueField(&o) != "" {
			words = append(words, a.name+"="+*a.valueField(&o))
		}
	}

	return strings.Join(words, ",")
}

// Words returns all options as a user writes them.
func Words() []string {
	var words []string
	for _, a := range options {
		words = append(words, a.usage())
		if a.opposite != "" {
			words = append(words, a.opposite)
		}
	}

	return words
}

// Help returns the table of options for the help text.
func Help() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, a := range options {
		usage := a.usage()
		if a.opposite != "" {
			usage += ", " + a.opposite
		}

		fmt.Fprintf(w, "  %s\t%s\n", usage, a.help)
	}

	_ = w.Flush()

	return b.String()
}

// usage returns the option with its possible values.
func (a option) usage() string {
	if a.values == "" {
		return a.name
	}
	return a.name + "=" + a.values
}

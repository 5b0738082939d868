package mountopt

import (
	"fmt"
	"net"
	"strings"
	"time"
)

// Options is what a mount may be asked for.
type Options struct {
	ReadOnly       bool   // ro
	AllowOther     bool   // allow_other: other users may use the mount
	SnapdirVisible bool   // snapdir=visible: .snapshots and .forks are listed
	ACL            bool   // acl: POSIX access control lists
	NoXattr        bool   // noxattr: no extended attributes
	NoHandles      bool   // nohandles: open_by_handle_at(2) opens nothing
	LowLatency     bool   // lowlatency: processors stay awake while requests follow each other
	Dev            bool   // dev: device nodes work
	Suid           bool   // suid: set-user-ID bits work
	NoExec         bool   // noexec: programs in the mount cannot be run
	Metrics        string // metrics=ADDR: Prometheus figures over HTTP
	Debug          bool   // debug: every request in the log
	Remount        bool   // remount: what is mounted gets other flags
	// Prefetch is how much of a snapshot on a remote is fetched before it is read
	// (prefetch=none|tree|all); tree when empty.
	Prefetch string
	Timeout  time.Duration // timeout=30s: of a read from a remote that is away
	Hard     bool          // hard: such a read waits until the remote is back
}

// ignored are the generic words that mean nothing to amberfs (it keeps no times
// of reading), or that mount(8) has dealt with already.
var ignored = map[string]bool{
	"defaults": true, "auto": true, "noauto": true, "user": true, "nouser": true, "users": true, "owner": true, "group": true,
	"nofail": true, "_netdev": true, "async": true, "atime": true, "noatime": true, "relatime": true, "norelatime": true, "strictatime": true,
	"nostrictatime": true, "lazytime": true, "nolazytime": true, "diratime": true, "nodiratime": true, "mand": true, "nomand": true,
	"silent": true, "loud": true, "iversion": true, "noiversion": true, "default_permissions": true,
}

// known is the list for the error message.
const known = "acl, allow_other, debug, dev, exec, hard, lowlatency, metrics=ADDR, nodev, noexec, nohandles, nosuid, noxattr, prefetch=none|tree|all, remount, ro, rw, snapdir=visible|hidden, suid, timeout=TIME"

// Parse reads the values of -o flags, each a comma-separated list. Of two words
// that contradict each other the later one counts, as in mount(8).
func Parse(lists ...string) (Options, error) {
	var o Options
	for _, list := range lists {
		for _, word := range strings.Split(list, ",") {
			if err := o.set(strings.TrimSpace(word)); err != nil {
				return Options{}, err
			}
		}
	}
	return o, nil
}

func (o *Options) set(word string) error {
	key, value, hasValue := strings.Cut(word, "=")
	switch key {
	case "snapdir":
		switch value {
		case "visible":
			o.SnapdirVisible = true
		case "hidden":
			o.SnapdirVisible = false
		default:
			return fmt.Errorf("the mount option snapdir takes visible or hidden, not %q", value)
		}
		return nil
	case "prefetch":
		if value != "none" && value != "tree" && value != "all" {
			return fmt.Errorf("the mount option prefetch takes none, tree or all, not %q", value)
		}
		o.Prefetch = value
		return nil
	case "timeout":
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("the mount option timeout takes a time such as 30s, not %q", value)
		}
		o.Timeout = d
		return nil
	case "metrics":
		host, port, err := net.SplitHostPort(value)
		if err != nil || port == "" {
			return fmt.Errorf("the mount option metrics takes HOST:PORT, such as metrics=localhost:9100, not %q", value)
		}
		_ = host
		o.Metrics = value
		return nil
	case "comment", "x-systemd", "fsname", "subtype":
		return nil
	case "user_id", "group_id", "rootmode", "max_read": // mount(8) repeats what the kernel shows, at a remount
		return nil
	}
	if strings.HasPrefix(key, "x-") || strings.HasPrefix(key, "X-") {
		return nil
	}
	if hasValue {
		return unknown(word)
	}
	switch key {
	case "":
	case "ro":
		o.ReadOnly = true
	case "rw":
		o.ReadOnly = false
	case "allow_other":
		o.AllowOther = true
	case "acl":
		o.ACL = true
	case "noacl":
		o.ACL = false
	case "noxattr":
		o.NoXattr = true
	case "nohandles":
		o.NoHandles = true
	case "lowlatency":
		o.LowLatency = true
	case "dev":
		o.Dev = true
	case "nodev":
		o.Dev = false
	case "suid":
		o.Suid = true
	case "nosuid":
		o.Suid = false
	case "exec":
		o.NoExec = false
	case "noexec":
		o.NoExec = true
	case "debug":
		o.Debug = true
	case "hard":
		o.Hard = true
	case "soft":
		o.Hard = false
	case "remount":
		o.Remount = true
	default:
		if !ignored[key] {
			return unknown(word)
		}
	}
	return nil
}

// String writes the options so that Parse reads the same ones.
func (o Options) String() string {
	var words []string
	for _, w := range []struct {
		on   bool
		word string
	}{
		{o.ReadOnly, "ro"}, {o.AllowOther, "allow_other"}, {o.SnapdirVisible, "snapdir=visible"}, {o.ACL, "acl"},
		{o.NoXattr, "noxattr"}, {o.NoHandles, "nohandles"}, {o.LowLatency, "lowlatency"},
		{o.Dev, "dev"}, {o.Suid, "suid"}, {o.NoExec, "noexec"},
		{o.Prefetch != "", "prefetch=" + o.Prefetch}, {o.Timeout > 0, "timeout=" + o.Timeout.String()}, {o.Hard, "hard"},
		{o.Metrics != "", "metrics=" + o.Metrics}, {o.Debug, "debug"}, {o.Remount, "remount"},
	} {
		if w.on {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, ",")
}

func unknown(word string) error {
	return fmt.Errorf("unknown mount option %q (known: %s)", word, known)
}

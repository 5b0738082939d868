package service

import (
	"time"

	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/snapshot"
)

// AddRemote registers a remote, and sets it up if it is new.
type AddRemote struct {
	Name       string   `json:"name" jsonschema:"its name in this store"`
	URL        string   `json:"url" jsonschema:"s3://BUCKET/PREFIX, oci://HOST/REPOSITORY or file:///DIR"`
	Recipients []string `json:"recipients,omitempty" jsonschema:"age recipients that a new remote is encrypted to"`
}

// Remote is a registered remote.
type Remote struct {
	Name      string `json:"name"`
	URL       string `json:"url"`
	Encrypted bool   `json:"encrypted,omitempty"`
}

// RemoteState is a remote that cannot be read.
type RemoteState struct {
	Name  string    `json:"name,omitempty" jsonschema:"its name, if it is untrusted"`
	URL   string    `json:"url"`
	State string    `json:"state" jsonschema:"away: it does not answer; untrusted: the store names it, and you have not agreed to contact it"`
	Since time.Time `json:"since,omitzero" jsonschema:"since when it does not answer"`
}

// AddedRemote is the result of AddRemote. Warnings are guarantees that the service
// does not provide.
type AddedRemote struct {
	Remote
	Warnings []string `json:"warnings"`
}

// Remotes lists the registered remotes.
type Remotes struct{}

// RemoteList is the result of Remotes, by name.
type RemoteList struct {
	Remotes []Remote `json:"remotes"`
}

// TrustRemote agrees to contact a remote that the store names.
type TrustRemote struct {
	Remote string `json:"remote" jsonschema:"the remote's name or URL"`
}

// RemoveRemote forgets a remote. Nothing on it changes.
type RemoveRemote struct {
	Name string `json:"name" jsonschema:"the remote"`
}

// Push sends snapshots to a remote.
type Push struct {
	Remote    string   `json:"remote,omitempty" jsonschema:"the remote's name or URL; if empty, that of the policy, or the only one"`
	Snapshots []string `json:"snapshots" jsonschema:"the snapshots"`
	As        string   `json:"as,omitempty" jsonschema:"the name on the remote, for one snapshot"`
	Force     bool     `json:"force,omitempty" jsonschema:"replace a snapshot that has the name"`
	Full      bool     `json:"full,omitempty" jsonschema:"send everything again"`
}

// PushedList is the result of Push.
type PushedList struct {
	Pushed []Pushed `json:"pushed"`
}

// Pushed is a snapshot that is on the remote.
type Pushed struct {
	Remote    string `json:"remote" jsonschema:"the remote's name or URL"`
	Snapshot  string `json:"snapshot"`
	As        string `json:"as" jsonschema:"its name on the remote"`
	ID        string `json:"id"`
	Unchanged bool   `json:"unchanged" jsonschema:"the remote had it already"`
	Objects   int    `json:"objects" jsonschema:"number of objects sent"`
	Bytes     int64  `json:"bytes" jsonschema:"bytes sent"`
}

// Pull copies snapshots of a remote into the store.
type Pull struct {
	Remote    string   `json:"remote" jsonschema:"the remote's name or URL"`
	Snapshots []string `json:"snapshots" jsonschema:"names on the remote, or whole ids"`
	As        string   `json:"as,omitempty" jsonschema:"the name in this store, for one snapshot"`
}

// PulledList is the result of Pull.
type PulledList struct {
	Pulled []snapshot.Info `json:"pulled"`
}

// RemoteSnapshots lists the snapshots on a remote.
type RemoteSnapshots struct {
	Remote string `json:"remote" jsonschema:"the remote's name or URL"`
}

// RemoteSnapshotList is the result of RemoteSnapshots, newest first.
type RemoteSnapshotList struct {
	Snapshots []RemoteSnapshot `json:"snapshots"`
}

// RemoteSnapshot is a snapshot on a remote.
type RemoteSnapshot struct {
	snapshot.Info
	Pushed  time.Time `json:"pushed"`
	Problem string    `json:"problem,omitempty" jsonschema:"why it cannot be read"`
}

// RemovePushed deletes snapshots from a remote.
type RemovePushed struct {
	Remote string   `json:"remote" jsonschema:"the remote's name or URL"`
	Names  []string `json:"names" jsonschema:"the snapshots"`
}

// GCRemote does one run of gc on a remote.
type GCRemote struct {
	Remote string `json:"remote" jsonschema:"the remote's name or URL"`
}

// VerifyRemote checks that a remote has everything its snapshots need.
type VerifyRemote struct {
	Remote string `json:"remote" jsonschema:"the remote's name or URL"`
	Deep   bool   `json:"deep,omitempty" jsonschema:"read every byte"`
}

// VerifiedRemote is the result of VerifyRemote.
type VerifiedRemote struct {
	remote.Verified
	Damage []RemoteDamage `json:"damage"`
}

// RemoteDamage is what is wrong with a snapshot on a remote.
type RemoteDamage struct {
	Snapshot string `json:"snapshot"`
	Problem  string `json:"problem"`
}

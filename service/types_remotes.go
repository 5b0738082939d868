package service

import (
	"time"

	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/snapshot"
)

// AddRemote asks to set a remote up, or to know one that is.
type AddRemote struct {
	Name       string   `json:"name" jsonschema:"what to call it here"`
	URL        string   `json:"url" jsonschema:"s3://BUCKET/PREFIX, oci://HOST/REPOSITORY or file:///DIR"`
	Recipients []string `json:"recipients,omitempty" jsonschema:"age recipients that everything is encrypted to"`
}

// Remote is one that the store knows.
type Remote struct {
	Name      string `json:"name"`
	URL       string `json:"url"`
	Encrypted bool   `json:"encrypted,omitempty"`
}

// RemoteState is a remote from which nothing can be read.
type RemoteState struct {
	Name  string    `json:"name,omitempty" jsonschema:"of one that is untrusted, or its URL"`
	URL   string    `json:"url"`
	State string    `json:"state" jsonschema:"away: it does not answer; untrusted: it came with the store, and is not contacted before amberfs remote trust"`
	Since time.Time `json:"since,omitzero" jsonschema:"when it went away"`
}

// AddedRemote also tells what the service does not keep of its word.
type AddedRemote struct {
	Remote
	Warnings []string `json:"warnings"`
}

// Remotes asks for the remotes.
type Remotes struct{}

// RemoteList is the result of Remotes, by name.
type RemoteList struct {
	Remotes []Remote `json:"remotes"`
}

// TrustRemote agrees to contact a remote that came with the store.
type TrustRemote struct {
	Remote string `json:"remote" jsonschema:"the remote's name, or its URL"`
}

// RemoveRemote asks to forget a remote; nothing on it changes.
type RemoveRemote struct {
	Name string `json:"name" jsonschema:"the remote"`
}

// Push asks to send snapshots to a remote.
type Push struct {
	Remote    string   `json:"remote,omitempty" jsonschema:"the remote's name, or its URL; the one of the policy, or the only one, if empty"`
	Snapshots []string `json:"snapshots" jsonschema:"the snapshots"`
	As        string   `json:"as,omitempty" jsonschema:"the name there, for one snapshot"`
	Force     bool     `json:"force,omitempty" jsonschema:"replace a snapshot of that name"`
	Full      bool     `json:"full,omitempty" jsonschema:"send everything anew, building on nothing that is there"`
}

// PushedList is the result of Push.
type PushedList struct {
	Pushed []Pushed `json:"pushed"`
}

// Pushed is a snapshot that is on the remote.
type Pushed struct {
	Remote    string `json:"remote" jsonschema:"where it is"`
	Snapshot  string `json:"snapshot"`
	As        string `json:"as" jsonschema:"its name there"`
	ID        string `json:"id"`
	Unchanged bool   `json:"unchanged" jsonschema:"it was there already"`
	Objects   int    `json:"objects" jsonschema:"that were sent"`
	Bytes     int64  `json:"bytes" jsonschema:"that were sent"`
}

// Pull asks to bring snapshots of a remote into the store.
type Pull struct {
	Remote    string   `json:"remote" jsonschema:"the remote's name, or its URL"`
	Snapshots []string `json:"snapshots" jsonschema:"their names there, or whole ids"`
	As        string   `json:"as,omitempty" jsonschema:"the name here, for one snapshot"`
}

// PulledList is the result of Pull.
type PulledList struct {
	Pulled []snapshot.Info `json:"pulled"`
}

// RemoteSnapshots asks what is on a remote.
type RemoteSnapshots struct {
	Remote string `json:"remote" jsonschema:"the remote's name, or its URL"`
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

// RemovePushed asks to remove snapshots from a remote.
type RemovePushed struct {
	Remote string   `json:"remote" jsonschema:"the remote's name, or its URL"`
	Names  []string `json:"names" jsonschema:"the snapshots there"`
}

// GCRemote asks for one run of a collection on a remote.
type GCRemote struct {
	Remote string `json:"remote" jsonschema:"the remote's name, or its URL"`
}

// VerifyRemote asks whether all that the snapshots on a remote need is there.
type VerifyRemote struct {
	Remote string `json:"remote" jsonschema:"the remote's name, or its URL"`
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

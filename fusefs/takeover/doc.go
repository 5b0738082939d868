// Package takeover has a mount's part of a takeover: a daemon dies, and the next one, its successor,
// continues the same connection to the kernel. Programs wait and see no error.
//
// Imported by: all of cmd, fusefs.
//
// The keeper is the parent process of both daemons. It has the FUSE device open, so the mount stays, and
// never reads from the device. See package keeper.
//
//	what the kernel has     who keeps it while      what the successor      what happens to a request
//	                        the daemon is dead      asks or does            that was under way
//	----------------------  ----------------------  ----------------------  ------------------------------
//	the connection, with    the keeper: the         answers INIT again, of  waits in the kernel
//	the terms of INIT       device, INIT and its    which the kernel sees
//	                        answer (Connection)     nothing. With another
//	                                                answer it does not
//	                                                start
//	requests that the       the kernel              NOTIFY_RESEND before    is answered from its record, or
//	dead daemon read and                            its first read          carried out: see below
//	did not answer                                  (Resends)
//	requests that nobody    the kernel              nothing                 is read after the resent ones
//	has read
//	references to nodes     the kernel. The counts  takes all old nodes as  its nodes are not probed before
//	                        of the dead daemon are  held, and asks for a    its answer (Probes.ExpectAnswers)
//	                        lost (Lookups)          node without a name
//	                                                (Probes)
//	open files without a    the journal and the     Forest.Inherit: the     finds the node
//	name                    checkpoint (orphans)    orphans, each probed
//	names, attributes and   the kernel. Edits       repeats the notices of  a control request that was an
//	pages in caches         without an end of       these edits (Notices)   edit is answered after these
//	                        notices: the journal                            notices
//	node ids of workspaces  nobody: they are        the forest's counters,  finds the node
//	and snapshots           numbers of the store    as recovery left them
//	open control files      nobody                  gives new files other   a command is answered from its
//	                                                numbers than the dead   record, or fails with EIO, and
//	                                                daemon did              is not run twice. Other
//	                                                                        requests: ESTALE once
//	                                                                        (resent.go of control)
//	locks (flock, fcntl)    the kernel              nothing                 is answered by the kernel
//	changes that a freeze   the kernel; the keeper  does not continue the   is carried out
//	holds back              has the freeze's end    freeze
//
// The keeper also has the lock of the store, the listening socket, and the connections of joined runs. The
// kernel has no part in these: the keeper sends the descriptors to the successor.
//
// # Where it lies
//
// Parts that need the lock of the forest, the descriptors of the daemon or the kernel's requests lie in the
// packages that have these:
//
//	the device, INIT and its answer  fusefs/connection.go (TakeOver, connect, resumeRequests)
//	the keeper and its messages      fusefs/takeover/keeper, cmd/amberfs/internal/daemon/kept.go
//	what a record says of a request  snapshot/live/request.go, snapshot/carried.go (Store.ResultOf)
//	orphans and unsent notices       snapshot/live/inheritance.go, snapshot/live/orphans.go
//	control files                    fusefs/control/resent.go
//	all else                         this folder
//
// # A resent request
//
// The kernel sends a request again with its old number and ResentBit. Records of changes that must not be
// made twice (onceOps) have the old number. Recovery collects the numbers, and Forest.Done finds them:
//
//  1. The number is found: the change is in the journal. The successor answers with the node in the record,
//     or with a success. A control request is answered from the record of the catalogue.
//  2. It is not found: the request is carried out as a new one. Writes, truncations and reads may be carried
//     out twice, because offsets are absolute and the kernel has locked the file until the answer.
//  3. Earlier daemons died while they carried the request out (keeper.Poison): it fails with EIO.
//
// Resends.Read returns one request after the other until the first one that is not resent. All requests for
// which the kernel still waits are known then, so the kernel has the answers to all other requests of the
// dead daemon (Takeover.SettleRequests).
//
// # The order
//
// The successor answers INIT, takes the old nodes as held, and sends NOTIFY_RESEND. Then it begins to send
// notices and probes in the background, and reads the first request. A successor that fails before this point
// closes its descriptors and changes nothing: the keeper still has all files, and starts another daemon. Linux
// before 6.9 does not send requests again, so there the mount ends with its daemon.
package takeover

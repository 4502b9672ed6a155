// Package fencefile guards files by fencing tokens, and keeps the marks of other
// resources in files.
//
// A [Guard] stands for one file, which a leader that shows its token replaces as a whole:
// [Guard.Write]. The file's mark is in a sidecar beside it, its path with ".fence" after it;
// the mark is compared, raised where the token is greater, and the file renamed, all under
// the lock of another one (".fence.lock"). [Guard.Install] makes the two, once, and
// [Guard.Claim] raises the mark before a new leader reads. A file without its sidecar is
// refused: a lost mark must not count as 0.
//
// [Mark] is a fence.Mark in a directory, for a fence.Guard of something else.
//
// What has been confirmed survives the loss of power: content is synced before it is
// renamed, and the directory before success is reported. Readers need no lock. They find
// the old content or the new one, never a mixture; and one that may be taken back by a
// loss of power, if they look before Write has returned. A leader that has claimed the
// file does not: Claim makes durable what it finds.
//
// # Where it holds
//
// Linux, macOS and FreeBSD; elsewhere everything ends with an error that matches
// errors.ErrUnsupported. The directory must be on a local file system, and its users
// processes of one machine: the lock is flock(2), which other machines do not see. What
// statfs(2) tells to be a network's (NFS, SMB, 9p, Ceph and the like) is refused. FUSE
// may be either, and is not refused; that and a file system in memory are what
// [State.Warnings] and [Mark.Warnings] tell of. A file that several machines write
// wants another shape: a directory for each token, and a file CURRENT that names the
// one in force, kept by something that can compare.
//
// The directory may be reached through links. A link in it is refused, and so is what is no
// regular file or has a second name. Root refuses a directory that another user can write
// to, or can put another one in the place of, unless
// [Config.SharedPlace] says that they are trusted.
//
// Only those who keep to this package are held off. A process that may write the
// directory can rename past it.
//
// All methods may be called at any time, by several goroutines and processes. A caller
// that is stopped while it holds the lock, between its check and its rename, keeps others
// waiting until it goes on or is killed; nobody's writing goes on under the lock. The
// lock is looked for again and again, at most 25 ms apart.
package fencefile

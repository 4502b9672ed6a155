// Package fencefile guards files by fencing tokens, and keeps the marks of other
// resources in files.
//
// A [Guard] guards one file. A leader that shows its token replaces the file as a whole: [Guard.Write]. The file's
// mark is in a sidecar, whose path is that of the file with ".fence" appended. Under the lock of another file
// (".fence.lock"), Write compares the mark, raises it if the token is greater, and renames the new content.
// [Guard.Install] makes the two files, once, and [Guard.Claim] raises the mark before a new leader reads. A file
// without its sidecar is refused: a lost mark must not count as 0.
//
// [Mark] is a fence.Mark in a directory, for a fence.Guard of other data.
//
// A confirmed write survives a loss of power: the content is synced before it is renamed, and the directory before
// success is reported. Readers need no lock. They find the old content or the new one, never a mixture. Content that
// they read before Write has returned may be undone by a loss of power. A leader that has claimed the file never
// reads such content: Claim makes durable what it finds.
//
// # Where it holds
//
// Linux, macOS and FreeBSD. On other systems every call returns an error that matches errors.ErrUnsupported. The
// directory must be on a local file system, and all users must be processes of one machine: the lock is flock(2),
// which other machines do not see. A network file system, by statfs(2) (NFS, SMB, 9p, Ceph and the like), is refused.
// FUSE may be local or not, and is not refused. [State.Warnings] and [Mark.Warnings] report FUSE and file systems in
// memory. A file that several machines write needs another form: a directory for each token, and a file CURRENT that
// names the one in force, in a store that can compare.
//
// The path to the directory may contain links. In the directory a link, a file that is not regular and a file with a
// second name are refused. Root refuses a directory that another user can write to or replace, unless
// [Config.SharedPlace] says that those users are trusted.
//
// The package stops only processes that use it. A process that may write the directory can bypass it with a rename.
//
// All methods may be called at any time, by several goroutines and processes. A caller that is stopped while it holds
// the lock, between its check and its rename, delays the others until it continues or is killed. No content is
// written while the lock is held. Waiting callers poll the lock, at most 25 ms apart.
package fencefile

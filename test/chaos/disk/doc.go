// Package disk has the disks of nodes under test, and their faults: [NewFUSE] makes one that can be
// slow, fail, be full, and lose power; [NewTmpfs] one that can be full, by the kernel's own
// account; [NewPlain] one that can only be copied and wiped.
//
// # What a loss of power leaves
//
// A disk of FUSE keeps what was synced apart from what was not. A killed process
// loses nothing: what it has written is in the system's memory. A loss of power
// takes away what is not durable, and durable is:
//
//   - The content and size of a file, as they were when an fsync or fdatasync of it
//     began that has succeeded, or a write with O_SYNC or O_DSYNC, or an msync with
//     MS_SYNC.
//   - The names in a directory, as they were when an fsync of that directory began
//     that has succeeded. So a file that was synced is gone if its new name was not;
//     and a name that was synced leads to an empty file if the content was not,
//     also if the name was another file's before, by a rename.
//   - Of what was moved from one directory to another, both or neither name; with
//     it all earlier changes of the two directories, and what gave these their names,
//     become durable.
//   - What was written a long time ago: of the writes to one file that wait for a sync,
//     older ones reach the disk by themselves when there are more than 16,384 of
//     them, or more than 4 MiB.
//
// Everything else is gone. With [Fault.Luck] some of it survives, by chance: for
// each file that has a durable name nothing, all, the first writes, or any of
// the 512-byte sectors of any write; of the changes of names none, all, the first
// ones, or any, with those that they rest on. With [Fault.Torn] the last write to
// each such file that waits for a sync survives up to any byte.
//
// This is stricter than ext4, xfs and btrfs, and than many a program believes, in
// what POSIX leaves open:
//
//   - An fsync of a file does not sync its name, nor does one of a directory sync
//     another directory, as the one journal of those does; and names that were
//     not synced do not survive in the order of their making.
//   - Data is not written before the names and sizes that lead to it, as ext4 does
//     with data=ordered, and with auto_da_alloc for renames and truncations.
//   - A size may survive without the data; there are zeros then.
//   - A write is torn at any byte, where disks write sectors as a whole.
//   - sync(2) and syncfs(2) do nothing; FUSE is not told of them.
//
// It is milder in this: a rename is never torn in two, and a file or directory is not lost between
// its old and its new name; modes, owners and times of what survives are never lost; nothing
// decays; and what was reported durable is. While a sync of a file is under way the kernel lets no
// process write to it, and with one of a directory, make or look for new names in it; a disk would.
//
// # Syncs that fail
//
// As with Linux since 4.13 an fsync that fails says so once, and what it was to
// write counts as written: the next fsync succeeds, and the disk never gets it
// (Rebello et al., "Can Applications Recover from fsync Failures?", 2020). It can
// be read until the kernel drops it from its memory, which POSIX_FADV_DONTNEED has it
// do at once; then the file is as it is on the disk, and where it has grown there are
// zeros. A page of which something is written again is written as a whole, with what
// was lost of it. An fsync of a directory that fails leaves its names as they
// were, not durable, and can be repeated; a journal would go read-only.
//
// # Other faults
//
// Full leaves what is there to be written in place, and removed and renamed. ReadOnly also fails an
// fsync that would have something to write. WriteError and SyncError do not keep processes from
// making and renaming files. Locks are the kernel's own: flock(2) and those of open file
// descriptions exclude and end as on any disk. Links, O_TMPFILE, shared mappings and programs work;
// extended attributes and holes do not.
//
// # Concurrency and failure
//
// All of a [Disk] may be called at any time by any goroutine. A call that returns an error has
// changed nothing, except for those of plain directories, which may be done in part. The files of a
// FUSE disk are in the memory of the process that made it, which serves them: they end with it, and
// their users then get errors (ENOTCONN). The next process that makes a disk removes the mounts of
// those that have died. The serving process should not use the files itself.
package disk

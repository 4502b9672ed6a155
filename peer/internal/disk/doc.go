// Package disk keeps the data directory of a node in one election: who it belongs to, what
// its voter has promised and must never forget, which directories it knows the
// other voters by, and a short history for people.
//
//	lock              held while a process, or the keeper of its work, uses the directory
//	identity          cluster, election, id and the directory's own random id
//	ballot            the voter's durable state, in two slots
//	pins              the other voters' directories, until the election is founded
//	paused            whether an operator has paused the node
//	void              why the directory must not be used any more; else it is absent
//	history.ndjson    changes of leadership; history-old.ndjson has those before
//	flight-*.ndjson   the flight recorder's; this package leaves them alone
//
// Those of one node are in the directory of its host, in elections/NAME: driver.CheckName
// sees to it that a name is one of a directory. The host's directory has a file identity of its
// own, see [OpenHost], which no vote depends on. Each election has its own lock and its
// own ballot, so that another process can have another election, and the keeper of one
// election's work keeps out the next life of that election alone.
//
// # The ballot
//
// It has two slots of [SlotSize] bytes in one file, each with a number, a
// length and a CRC-32C over all of it. They are written with zeros when the
// directory is made, so that a save needs no space on the disk. [Dir.Save]
// writes the slot that does not hold the newest ballot and waits until it is
// durable; [Dir.Mirror] then writes the same ballot to the other one, off the
// critical path. [Open] takes the valid slot with the greatest number.
//
// A write that was cut short damages a slot that nobody was told of: the other
// one has the newest ballot, and the damage is harmless. A slot that decays
// after Mirror is harmless too, for both have the same. Only a slot that decays
// between a Save and its Mirror takes a ballot with it that counts, and what is
// left is the one before. It looks like the first case, so Open goes on and says
// so in [Dir.Warnings]. That is why a node calls Mirror as soon as it is idle.
// Two damaged slots are refused: a voter that has forgotten its vote may vote
// again, and so make two leaders of one term.
//
// The first Save of a directory writes both slots and then marks the identity:
// from then on a directory without a valid ballot has lost votes, and is
// refused. Before that mark no Save has returned, so there was nothing to lose.
//
// What is read from a file may be in the system's memory only, because a process
// was killed before it had synced, or because syncing failed (Linux then forgets
// that the page was never written: Rebello et al., "Can Applications Recover from
// fsync Failures?", 2020). Open therefore syncs first, drops what is in memory,
// where the system can, and then reads.
//
// # Concurrency and failure
//
// Save and Mirror belong to one goroutine at a time, Note to one too. All
// others may be called by any. All but Pins, Path, Identity, Lock, Ballot and Warnings
// may wait for the disk. After an error of Save, Mirror or Pin what was durable
// before is still there and still what counts, and the same call may be tried
// again; what it wanted to write may turn up after a restart, or not.
//
// Package place opens the directory and the files: no link below the given directory
// is followed, and what could be another user's is refused.
//
// Two processes are kept apart by flock(2), which is let go when the last copy
// of the descriptor is closed: a keeper that holds one keeps the next life of
// the node out until the work is dead. A directory that is put back from a
// backup has forgotten votes, and nothing here can tell.
package disk

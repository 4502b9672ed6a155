// Package disk keeps the data directory of a node in one election: its identity, the votes and promises that it must
// never forget, the directories of the other voters, and a short history for people.
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
// The data directories of one node are in the directory of its host, in elections/NAME. driver.CheckName ensures that
// the name can name a directory. The host's directory has a file identity of its own, see [OpenHost], on which no
// vote depends. Each election has its own lock and its own ballot. So another process can have another election, and
// the keeper of one election's work keeps out the next life of that election alone.
//
// # The ballot
//
// It has two slots of [SlotSize] bytes in one file, each with a number, a length and a CRC-32C over all of it. They
// are filled with zeros when the directory is made, so that a save needs no further space on the disk. [Dir.Save]
// writes the slot that does not hold the newest ballot and waits until it is durable; [Dir.Mirror] then writes the
// same ballot to the other one, off the critical path. [Open] takes the valid slot with the greatest number.
//
// A write that was cut short damages a slot that nothing depends on yet: the other slot has the newest ballot, and
// the damage is harmless. Damage to a slot after Mirror is harmless too, because both slots have the same ballot.
// Only damage to a slot between a Save and its Mirror loses a ballot that counts, and leaves the one before. It looks
// like the first case, so Open goes on and says so in [Dir.Warnings]. That is why a node calls Mirror as soon as it
// is idle. It calls it again now and then, to learn whether the disk still writes: both slots have the same then. Two
// damaged slots are refused: a voter that has forgotten its vote may vote again, and so make two leaders of one term.
//
// The first Save of a directory writes both slots and then marks the identity: from then on a directory without a
// valid ballot has lost votes, and Open refuses it. Before that mark no Save has returned, so there was nothing to
// lose.
//
// What Open reads from a file may be in the system's memory only, because a process was killed before it had synced,
// or because syncing failed (Linux then forgets that the page was never written: Rebello et al., "Can Applications
// Recover from fsync Failures?", 2020). So Open first syncs, then has the system drop its copy in memory, if it can,
// and then reads.
//
// # Concurrency and failure
//
// One goroutine at a time may call Save and Mirror, and one may call Note. Any goroutine may call the others. All but
// Pins, Path, Identity, Locks, Ballot and Warnings may wait for the disk. After an error of Save, Mirror or Pin the
// earlier durable state still exists and counts, and the same call may be tried again. After a restart the state of
// the failed call may appear, or not.
//
// Package place opens the directory and the files. It follows no link below the given directory, and refuses what
// another user could own.
//
// flock(2) keeps two processes apart. The kernel releases it when the last copy of the descriptor is closed: a keeper
// that holds one keeps the next life of the node out until the work is dead. A directory that was restored from a
// backup has forgotten votes, and this package cannot detect that.
package disk

// Package register elects over one record of a store that has compare-and-set. It drives the machine
// of internal/protocol/lease, and makes of it a [driver.Elector]. What differs between stores is
// behind [Register]; what it shares with the queues is in package drive.
//
// Here, once for all registers, is: the record's form; outcomes that are not known, which the machine
// resolves by reading, and which a read proves only once it is written again; and what observers are
// shown.
package register

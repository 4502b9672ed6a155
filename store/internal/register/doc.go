// Package register elects over one record of a store that has compare-and-set. It drives the machine
// of internal/protocol/lease, and makes of it a [driver.Elector]. What differs between stores is
// behind [Register]; what it shares with the queues is in package drive.
//
// It has what all registers share: the record's form; outcomes that are not known, which the machine
// resolves by reading, and which a read proves only once it is written again; what observers are
// shown; and the wishes of operators.
package register

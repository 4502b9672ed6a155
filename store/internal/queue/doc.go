// Package queue elects over a store that keeps entries in the order of their creation, each for as
// long as its session. It drives the machine of internal/protocol/queue, and makes of it a
// [driver.Elector]. What differs between stores is behind [Queue]; what it shares with the registers
// is in package drive.
//
// It has what all queues share: the text of entries and of the mark, where foreign text belongs to a
// foreign candidate; the watches of the machine; what observers are shown; and the wishes of
// operators. Each [Elector.Watch] reads and watches the first entry by itself, so without observers
// nothing is asked for them.
package queue

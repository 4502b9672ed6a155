// Package queue elects over a store that keeps entries in the order of their creation, each for as
// long as its session. It drives the machine of internal/protocol/queue, and makes of it a
// [driver.Elector]. What differs between stores is behind [Queue]; what it shares with the registers
// is in package drive.
//
// Here, once for all queues, is: the text of entries and of the mark, where foreign text belongs to
// a foreign candidate; the watches of the machine; and what observers are shown. Each
// [Elector.Watch] reads and watches the first entry by itself, so nothing is asked for observers
// that do not exist.
package queue

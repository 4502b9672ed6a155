// Package demo is elect demo: three real nodes on this machine, one job that
// must never run twice at a time, and somebody who breaks things: a person at a
// terminal, or a script where there is none.
//
// elect demo zombie is here, too: the textbook's story of fencing tokens, which [Zombie]
// plays with processes of its own kind.
//
// The nodes are elect run processes of their own, with certificates made for
// them, connected through cables that can be cut. The job appends to a log that
// is guarded by the fencing token. Everything that is claimed about who ran when
// is read back from that log; what nodes say about themselves (their lease, whom
// they follow) is only shown.
//
// The model of what is seen, the sentences about it and the picture of it are
// pure: they change by what is reported to them, and do no I/O. One [Demo]
// joins them with the processes. It may be used by one goroutine, and one runs
// in a process at a time. Close returns when everything that was started is
// dead, and what was written is removed unless it was to be kept; if this
// process is killed, a sweeper process does the rest.
package demo

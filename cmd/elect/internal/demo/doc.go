// Package demo implements elect demo: three real nodes on this machine, one job that must never run twice at a time,
// and faults. A person at a terminal causes the faults, or a script without a terminal.
//
// It also implements elect demo zombie: [Zombie] plays the textbook's story of fencing tokens with processes of
// another kind.
//
// The nodes are elect run processes, with certificates made for them, connected through cables that can be cut. The
// job appends to a log that is guarded by the fencing token. All claims about which job ran when are read back from
// that log. What nodes report of themselves (their lease, their leader) is only shown.
//
// The model of the nodes, the sentences about it and the picture of it are pure: reports change them, and they do no
// I/O. A [Demo] connects them with the processes. One goroutine may use it, and one Demo runs in a process at a time.
// Close returns when everything that was started is dead and, unless Config.Keep is set, all files are removed. If
// this process is killed, a sweeper process does that.
package demo

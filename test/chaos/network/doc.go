// Package network is a network between nodes of one machine that can be broken:
// for each of them a network namespace ([NewNamespaces]), or a proxy for each
// ordered pair on loopback ([NewProxies]). What a link does to what is sent over it
// is a [Link], the state of all of them a [Links], and the functions that return
// Links are the partitions of the literature.
//
// All methods may be called by any number of goroutines. A network that cannot
// be had on this machine is [ErrUnable] with the reason, and a fault that a kind
// of network cannot do is refused by Can, and by Set before anything is changed.
package network

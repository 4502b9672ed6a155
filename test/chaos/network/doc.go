// Package network is a network between nodes of one machine whose links can fail: with a network
// namespace for each node ([NewNamespaces]), or a proxy for each ordered pair on loopback
// ([NewProxies]). A [Link] is the state of one way between two nodes, a [Links] the state of all of
// them, and the functions that return Links are the partitions of the literature.
//
// All methods may be called concurrently. A network that is impossible on this machine is
// [ErrUnable] with the reason, and a fault that a kind of network cannot have is refused by Can,
// and by Set before anything is changed.
package network

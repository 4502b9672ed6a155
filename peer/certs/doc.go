// Package certs is a small certificate authority for the peers of one cluster:
// it makes one, issues certificates from it, and gives the TLS configurations
// that accept those and nothing else.
//
// A certificate says in a URI who it is for: elect://CLUSTER/ID for a node, and
// for people and their tools elect://CLUSTER/~ROLE or elect://CLUSTER/~ROLE/NAME,
// where the role is observe, operate or administer, and NAME is for logs. Without a
// name the role operate is written ~operator, as by builds that knew no roles. What
// a role may do package peer says, and a node enforces. What counts is the chain
// to the cluster's own authority, that URI, and the dates. Host names in
// certificates are for other tools; they are not checked, because addresses of
// peers change and ids do not. Certificates of another authority serve as well
// if they carry the URI.
//
// TLS is 1.3 only, and both sides show a certificate. A certificate that is
// refused is an error that says what it is, and what would be right.
//
// [Renew] issues certificates anew, and [BeginRollover] with [FinishRollover] puts
// one authority in the place of another; no node has to be restarted for either. An
// [Identity] reads its files again when they have changed, at the next handshake;
// files that cannot be used leave in force what was read before, and
// [Identity.Warnings] says so. A certificate that has expired is refused by whoever
// is shown it ([ErrExpired]), and by [Load]. [Identity.Recheck] is for connections
// that are there when it expires.
//
// All functions and methods may be called by any number of goroutines, but those that
// write ([Make], [Renew], [BeginRollover], [FinishRollover]) only one at a time for
// one directory.
package certs

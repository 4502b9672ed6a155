// Package certs is a small certificate authority for the peers of one cluster:
// it makes one, issues certificates from it, and gives the TLS configurations
// that accept those and nothing else.
//
// A certificate says in a URI who it is for: elect://CLUSTER/ID for a node,
// elect://CLUSTER/~operator for people and their tools. What counts is the chain
// to the cluster's own authority, that URI, and the dates. Host names in
// certificates are for other tools; they are not checked, because addresses of
// peers change and ids do not. Certificates of another authority serve as well
// if they carry the URI.
//
// TLS is 1.3 only, and both sides show a certificate. A certificate that is
// refused is an error that says what it is, and what would be right.
//
// All functions and methods may be called by any number of goroutines, but
// [Make] only once at a time for one directory. An [Identity] reads its files
// again when they have changed, at the next handshake, so a renewal needs no
// restart; files that cannot be used leave in force what was read before, and
// [Identity.Warnings] says so.
package certs

// Package certs is a small certificate authority for the peers of one cluster:
// it makes the authority, issues certificates from it, and provides TLS
// configurations that accept these certificates and no others.
//
// A certificate names its holder in a URI: elect://CLUSTER/ID for a node, and
// elect://CLUSTER/~ROLE or elect://CLUSTER/~ROLE/NAME for an operator, which is a
// person or a program. The role is observe, operate or administer, and NAME is for
// logs. Without a name the role operate is written ~operator, as by builds without
// roles. Package peer documents what a role may do, and its nodes enforce it. What
// counts is the chain to the cluster's own authority, that URI, and the dates. Host
// names in certificates are for other tools; they are not checked, because addresses
// of peers change and ids do not. Certificates of another authority can be used if
// they carry the URI.
//
// TLS is 1.3 only, and both sides show a certificate. The error for a certificate
// that is refused says what the certificate is for, and what would be right.
//
// [Renew] issues certificates anew, and [BeginRollover] with [FinishRollover]
// replaces the authority; neither needs a restart of nodes. An [Identity] reads its
// files again at the next handshake after they have changed. If the new files cannot
// be used, the old contents stay in force, and [Identity.Warnings] says so. The other
// side of a handshake refuses a certificate that has expired ([ErrExpired]), and so
// does [Load]. [Identity.Recheck] is for connections that exist when it expires.
//
// All functions and methods may be called by any number of goroutines, except that
// those that write ([Make], [Renew], [BeginRollover], [FinishRollover]) may be called
// by only one at a time for each directory.
package certs

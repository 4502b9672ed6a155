// Package certs is a small certificate authority for the peers of one cluster: it makes the authority, issues
// certificates, and provides TLS configurations that accept these certificates and no others. The page docs/peers.md is
// about running it.
//
// A certificate names its holder in a URI: elect://CLUSTER/ID for a node, and elect://CLUSTER/~ROLE or
// elect://CLUSTER/~ROLE/NAME for an operator, a person or a program. NAME is for logs. Without a name the role operate
// is written ~operator. What counts is the chain to the cluster's own authority, that URI, and the dates; host names
// are for other tools. Certificates of another authority can be used if they carry the URI.
//
// TLS is 1.3 only, and both sides show a certificate. The error for a certificate that is refused says what the
// certificate is for, and what would be right.
//
// [Renew] issues certificates anew, and [BeginRollover] with [FinishRollover] replaces the authority, without a restart
// of nodes: an [Identity] reads its files again at the next handshake after they have changed. If the new files cannot
// be used the old contents stay in force, and [Identity.Warnings] says so.
//
// All functions and methods may be called by any number of goroutines, except that those that write ([Make], [Renew],
// [BeginRollover], [FinishRollover]) may be called by only one at a time for each directory.
package certs

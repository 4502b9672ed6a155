// Package upgrade is a test: it rolls an election of real processes from one version of the peers'
// protocol to the next one and back, node by node, while the election goes on. The next version is
// a build with the tag chaosnext, which numbers the messages of a connection where both sides speak
// it.
//
// There is nothing to import here. Linux only.
package upgrade

// Package arch holds the rules of the repository as tests: which package may import which, what the pure packages
// must not touch, what a package comment, a file and a go.mod look like, and where state may live. It contains no
// code for other packages.
//
// The tests parse the whole repository, from the directory of go.work down: every module, every file, for every
// system. They run nothing and need no network. A small tree in testdata shows for each rule that it finds
// violations.
//
// A finding says which rule was broken, where, and what to do. The tables that
// people extend are in tables_test.go; each line of them carries its reason.
package arch

// Package arch holds the rules of the house as tests: which package may import
// which, what the pure packages must not touch, what a package comment, a file
// and a go.mod look like, and where state may live. It contains no code that
// anything else could use.
//
// The tests read the whole repository, from the directory of go.work down, by
// parsing it: every module, every file, whatever system it is built for. They
// run nothing and need no network. Each rule is shown to bite by a small tree
// in testdata.
//
// A finding says which rule was broken, where, and what to do. The tables that
// people extend are in tables_test.go; each line of them carries its reason.
package arch

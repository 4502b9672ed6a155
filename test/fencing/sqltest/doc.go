// Package sqltest is what the proofs of fence/fencesql have in common, whichever database
// they are at. A package of tests describes its database ([Database]), runs the cases
// here, and adds those that are of its database alone. A case makes a database of its own,
// and belongs to the goroutine of its test, which it fails.
package sqltest

// Package sqltest is what the proofs of fence/fencesql have in common for all databases. A package
// of tests describes its database ([Database]), runs the cases here, and adds its own. A case makes
// a database of its own, and belongs to the goroutine of its test.
package sqltest

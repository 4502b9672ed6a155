// Package mutant lets tests switch single rules of the machines off, by name,
// to show that the simulator notices. In a build without the tag "mutants",
// which is every build but those tests', a [Switch] has no size, Has is the
// constant false, and the compiler removes what depends on it.
//
// A Switch is part of a machine's configuration and is never changed after.
package mutant

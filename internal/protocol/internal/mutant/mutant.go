// Package mutant lets tests switch off single rules of the machines, by name, to show that the
// simulator finds the fault. In a build without the tag "mutants", which is every build but those
// of such tests, a [Switch] has no size, Has is the constant false, and the compiler removes what
// depends on it.
//
// A Switch is part of a machine's configuration and never changes.
package mutant

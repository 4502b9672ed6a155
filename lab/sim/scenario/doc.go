// Package scenario holds the named scenarios: small schedules of faults, most of
// them known from papers and outages, each with what every protocol to which it
// applies must do in it.
//
// A [Scenario] makes the schedules of a protocol, in the times of that protocol's own
// configuration, runs them in the world of package sim, records the leaders, and judges. The
// judgement is code; [Scenario.Expected] says it in words, and [Report.Outcome] says what happened,
// with the figures of the run. A scenario whose outcome is random is run with many seeds, and all
// of them are judged.
//
// Everything is deterministic: the same build gives the same report. All
// functions may be called by any number of goroutines. They fail if a scenario
// does not apply to a protocol, and when their context ends.
package scenario

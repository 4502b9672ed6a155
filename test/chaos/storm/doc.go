// Package storm lets faults of every kind befall an election of real processes
// for as long as one likes, by a schedule that is drawn from a seed before
// anything runs, and has the history judged.
//
// A [Schedule] is data: what is done when, for how long, and to whom. The
// executor carries it out, a few faults at a time, and undoes each one, whatever
// becomes of the others; it writes down when each began and ended, which links
// there were and which nodes were well, so that the judge knows when somebody
// ought to have led. [Run] does all of it: network, disks, clocks, processes,
// workload, schedule, judgement.
//
// A run belongs to the goroutine that calls [Run], which returns when everything
// that it started has ended. Schedules are values. Linux only.
package storm

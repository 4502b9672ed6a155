// Package storm injects faults of every kind into an election of real processes, for any length of
// time, by a schedule that is drawn from a seed before anything runs, and has the history judged.
//
// A [Schedule] is data: which faults occur when, for how long, and at which nodes. The executor
// carries it out, a few faults at a time, and undoes each one, whatever happens to the others. It
// records when each began and ended, the state of the links and which nodes were well, so that the
// judge knows when there should have been a leader. [Run] does everything: network, disks, clocks,
// processes, workload, schedule, judgement.
//
// A run belongs to the goroutine that calls [Run], which returns when everything
// that it started has ended. Schedules are values. Linux only.
package storm

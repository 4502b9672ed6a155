// Run injects faults into an election of real processes for any length of time, and reports whether
// the election kept its promises. It is what make chaos runs; see docs/chaos.md.
//
//	run [flags]              a storm by a schedule that is drawn from a seed
//	run [flags] SCHEDULE     the storm of a schedule.json again
//	run --list               the faults and the setups
//	run --judge DIR          judges a run that was kept, again
//
// It runs one storm at a time, prints its state every 10 s, and removes the directory of one
// without a violation. The exit codes are
//
//	0    no promise was broken
//	1    one was; the directory of the run is kept, and said
//	64   the command line is wrong
//	70   the harness failed, and so nothing is known; the directory is kept
//	130  interrupted, and of what there was until then nothing was broken
//
// Linux only.
package main

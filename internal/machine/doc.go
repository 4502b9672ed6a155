// Package machine says what a figure was measured on, and what processes take:
// the system's name, its load, CPU time and memory.
//
// Its functions keep no state and may be called by any number of goroutines.
// Where the system does not tell, Load returns nil and the others an error; they
// do not guess.
package machine

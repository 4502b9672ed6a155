// Package conditions describes the machine of a measurement, and what processes use: the system's name, its load, CPU
// time and memory.
//
// Its functions keep no state and may be called by any number of goroutines. If the system does not tell, Load
// returns nil and the others an error; they do not guess.
package conditions

// Package sqlite has the proof that fence/fencesql protects data in SQLite, and that similar
// designs do not. It holds tests only, and needs cgo.
package sqlite

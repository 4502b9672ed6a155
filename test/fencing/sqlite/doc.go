// Package sqlite has the proof that fence/fencesql protects what is in SQLite, and that
// shapes which look as good do not. It holds tests only, and needs cgo.
package sqlite

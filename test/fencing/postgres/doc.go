// Package postgres has the proof that fence/fencesql protects what is in PostgreSQL, and
// that shapes which look as good do not.
package postgres

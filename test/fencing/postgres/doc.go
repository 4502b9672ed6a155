// Package postgres has the proof that fence/fencesql protects what is in PostgreSQL, and
// that shapes which look as good do not. It needs a PostgreSQL that is installed: each test
// starts its own server, and makes a database of its own for each case.
package postgres

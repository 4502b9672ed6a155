// Package postgres has the proof that fence/fencesql protects data in PostgreSQL, and that similar
// designs do not. It needs an installed PostgreSQL: each test starts its own server, and makes a
// database for each case.
package postgres

// Package server runs one PostgreSQL server and its data directory.
package server

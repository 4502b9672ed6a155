// Package postgres keeps one primary among the nodes of a PostgreSQL cluster, and the others as its replicas.
package postgres

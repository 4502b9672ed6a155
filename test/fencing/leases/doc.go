// Package leases has the proof that store/sqlstore elects at real databases: PostgreSQL,
// MariaDB and SQLite. It holds tests only; without a server they are skipped, and fail in
// CI.
package leases

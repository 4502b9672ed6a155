// Package mysql has the proof that fence/fencesql protects data in MariaDB, and that similar
// designs do not. It holds tests only; without a server they are skipped, and fail in CI.
package mysql

// Package mysql has the proof that fence/fencesql protects what is in MariaDB, and that
// shapes which look as good do not. It holds tests only; without a server they are skipped,
// and fail in CI.
package mysql

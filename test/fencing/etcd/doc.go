// Package etcd proves that fence/fenceetcd lets nothing stale through, at a real etcd, and
// shows shapes that do. It is tests only.
package etcd

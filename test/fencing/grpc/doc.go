// Package grpc proves that fence/fencegrpc lets nothing stale through, at a real server in
// a process of its own, and shows a shape that does. It is tests only.
package grpc

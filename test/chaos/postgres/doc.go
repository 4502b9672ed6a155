// Package postgres breaks a cluster of three nodes of elect recipe postgres, on real PostgreSQL servers, and checks that
// no acknowledged row is lost. All of its code is in its tests.
//
// Each node has a network namespace and a small disk of its own, and runs as an unprivileged user. Clients in a process
// beside them insert rows with keys of their own, and write down what was acknowledged, when. They reach all nodes past
// all faults of the network: so an old primary that is cut off from the others still has clients. Faults come one after
// another, of kinds that a seed shuffles. In TestDisks the disks are slow, fail, and lose power with what was not synced.
// In TestHAProxy and TestAddress clients do not know the nodes.
//
// The tests need root, network namespaces, nftables and PostgreSQL 15; without these they are skipped, or fail in CI.
package postgres

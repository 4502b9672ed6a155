// Package chaos holds tests that run real elect processes and break them on
// purpose. It has no code of its own outside its tests. Each test starts what it
// needs in temporary directories, takes its randomness from a seed that it
// prints, is bounded in rounds or time, and leaves no process behind.
// ELECT_CHAOS_SEED repeats a run's choices; ELECT_CHAOS_ROUNDS changes how many
// rounds it has.
//
// The test of peers gives each node a network of its own and drops packets in
// it. That takes root, network namespaces, and the packages iproute2 and
// nftables; where one of these is missing the test says so and is skipped, but
// with CI=true it fails. It removes its namespaces, and at its next run those of
// a test that was killed.
package chaos

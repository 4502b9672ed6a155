// Package chaos holds tests that run real elect processes and break them on
// purpose. It has no code of its own outside its tests. Each test starts what it
// needs in temporary directories, takes its randomness from a seed that it
// prints, is bounded in rounds, and leaves no process behind. ELECT_CHAOS_SEED
// repeats a run's choices; ELECT_CHAOS_ROUNDS changes how many rounds it has.
package chaos

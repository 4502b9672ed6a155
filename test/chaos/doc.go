// Package chaos holds tests that run real elect processes and break them on
// purpose. It has no code of its own outside its tests: what they are made of is
// in the packages below it.
//
//   - TestScenarios plays the named scenarios of the literature (the catalogue), one
//     story each: who must lead then, within what time, and what must never be.
//   - TestOneFamilyAtATime and TestPeersUnderPacketLoss have mishaps befall an
//     election by chance, round after round. ELECT_CHAOS_SEED repeats a run's
//     choices; ELECT_CHAOS_ROUNDS changes how many rounds it has.
//   - TestTeeth has the programs break a rule each, and wants that found.
//
// Storms of many faults at a time, for as long as one likes, are package storm's.
//
// Each test starts what it needs in temporary directories, is bounded in time, and
// leaves no process, network or mount behind; what a test that was killed has left
// the next one removes. Plays go on side by side, as many as -parallel says.
//
// It takes root, network namespaces, nftables and /dev/fuse. Where one of these is
// missing the tests that need it say so and are skipped, but with CI=true they
// fail. A broken promise fails a test at once. What comes too late, or disturbs, is
// tried again if the machine was short of processors meanwhile, and not judged if
// that is so in each of three plays. More than three parts that are not judged fail
// the package.
package chaos

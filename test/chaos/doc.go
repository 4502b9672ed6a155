// Package chaos holds tests that run real elect processes and inject faults. All of its own code is
// in its tests; what they use is in the packages below it.
//
//   - TestScenarios runs the named scenarios of the literature (the catalogue): which node must
//     lead, within what time, and what must never happen.
//   - TestOneFamilyAtATime and TestPeersUnderPacketLoss inject random faults into an election,
//     round after round. ELECT_CHAOS_SEED repeats the choices of a run; ELECT_CHAOS_ROUNDS changes
//     the number of rounds.
//   - TestTeeth makes the programs break one rule each, and expects the tests to find it.
//
// Storms of many faults at a time, of any length, are in package storm.
//
// Each test starts what it needs in temporary directories, is bounded in time, and leaves no
// process, network or mount behind; the next test removes what a killed one has left. Plays run
// side by side, as many as -parallel says.
//
// The tests need root, network namespaces, nftables and /dev/fuse. Tests without one of these say
// so and are skipped; with CI=true they fail. A broken promise fails a test at once. A delay or a
// disturbance is tried again if the computer was short of processors meanwhile, and is not judged
// if that is so in each of three plays. More than three parts that are not judged fail the package.
package chaos

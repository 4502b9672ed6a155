// Worker is the program that does the work while a harness injects faults, and records what it saw.
// Its roles:
//
//	worker life             is what elect run starts: it stamps its life, and writes to
//	                        the register with the token of ELECT_TOKEN. It starts a
//	                        descendant that leaves its session, ignores every polite
//	                        signal, and stamps too. SIGTERM ends the first of them
//	worker guarded          is a program that embeds the library: it stands in an
//	                        election, and while it leads it asks Check, stamps, writes to
//	                        the register, and streams sequences. At SIGUSR2, if it leads,
//	                        it stops itself (SIGSTOP) between a check and a write
//	  --election URL --name N --id ID
//	  --promise D --heartbeat D --profile NAME     replace those of the URL
//	  --exclusive=false     for protocols without a lease: it leads unproven, and stamps
//	                        what Check proves
//	  --guardian            the same under a keeper (supervise.Guard), with a witness and,
//	                        while it leads, a descendant as above
//	worker member           is a member of a group: while it holds a key it stamps a life
//	                        of that key, and writes to the key's register. It obeys
//	                        lines of its input: move MEMBER KEY..., drain MEMBER true|false,
//	                        die (when the next write has just begun). SIGTERM has it leave
//	  --election URL --name N --id ID
//	  --listen ADDR --advertise ADDR    of the group
//	  --keys N --promise D
//	  --elections N         so many of the keys are named elections, the last ones
//	  --guardian            be under a keeper, with a witness and a child that stamps, too
//	worker watch            watches an election and writes down each state
//	  --election URL --name N
//	  --as NAME             how its file is called ("watch" if not given)
//	worker burn [N]         spins in N threads (1) until it is killed or its parent has died
//	worker register         serves the register until SIGTERM, then prints its counts
//	worker lives            prints the lives in the ledger, an object a line
//
// # Surroundings
//
// CHAOS_DIR is the directory of the run, CHAOS_NODE the node's number from 0, and
// CHAOS_RATE how many operations on the register one that leads does in a second
// (100; one that stands by reads at a twentieth of that). In the directory are
//
//	ledger                  package lives; made if it is not there
//	register.sock           package register; without a server, workers only stamp
//	ops/*.ndjson            what they did to the register
//	watch/NAME-….ndjson     what a watcher saw: {"at", "time", "leader": {"id", "token"},
//	                        "stale", "cause"}, as elect watch -o json has it and with the
//	                        time of package lives; one file for each subscription
//	events/NAME-….ndjson    what a member's group told: {"at", "kind", "key", "token", "member",
//	                        "reason", "why"}; of EventEnded what was not asked for
//	usage/PID.json          written by guarded when it can be asked, and then at each
//	                        SIGUSR1: {"at", "pid", "node", "goroutines"}
//
// A worker that finds the ledger removed ends, so none outlives the directory of its run for long.
//
// # By hand
//
//	export CHAOS_DIR=$(mktemp -d)
//	go build -o $CHAOS_DIR/ ./cmd/elect ./test/chaos/worker
//	cd $CHAOS_DIR
//	./worker register &
//	CHAOS_NODE=0 ./elect run --election file:elections --name once -- ./worker life &
//	CHAOS_NODE=1 ./worker guarded --guardian --election file:elections --name once --id n2 &
//	./worker watch --election file:elections --name once &
//	./worker lives                   # kill the leader, and look again
//	kill %2 %3 %4; sleep 1; kill %1  # and then ops, watch and register.ndjson tell
//
// # Times
//
// The two of a family stamp every 150 µs. A program that embeds the library asks
// Check every millisecond, and after it has come to run later than it should have,
// as after SIGCONT, again and again without a pause for some milliseconds: this is
// where a stale belief would show. It spins for a twentieth of the time at most, so
// that five of them do not starve two processors.
//
// # Concurrency and failure
//
// All files may be written by any number of workers. Trouble with the register is
// logged to stderr, and costs operations and no leadership. The exit codes are
//
//	0   told to end by SIGTERM or SIGINT, or done
//	64  the command line is wrong
//	69  the election cannot be opened, or something is wrong with it for good
//	70  the surroundings are: CHAOS_DIR, the ledger, ELECT_TOKEN; or the directory
//	    of the run has gone
//
// Linux only.
package main

package play

import (
	"time"

	"github.com/electd/elect/lab/sim"
)

const ms = time.Millisecond

// stories makes the guided stories. A test finds every step, and compares the sentences with the
// runs.
func stories() []*Story {
	return []*Story{
		electionStory(), scoutingStory(), bullyStory(), ringStory(), herdStory(), leaseStory(), splitStory(), oneWayStory(),
		cloudflareStory(), witnessStory(), transferStory(), membershipStory(), naiveStory(), liarStory(), illStory(), clockStory(),
	}
}

func scene(name, protocol string) *World { return &World{Protocol: protocol, Scenario: name} }

func electionStory() *Story {
	calm := &World{Protocol: "raft", Seed: 5, Nodes: 4, Delay: 30 * ms, Seconds: 5}
	split := &World{Protocol: "raft", Seed: 20, Nodes: 4, Delay: 30 * ms, Seconds: 5}
	return &Story{
		Name: "election", Title: "An election, and a split vote", Says: "How one of several becomes the leader, and why it may take two rounds.",
		Asks:    "How does Raft elect a leader, and what if two stand at once?",
		Answers: "A node that hears no leader for a random time begins a new term and asks for votes. Each node votes once a term, and a majority elects. If the votes split, nobody wins the term, and new random waits separate the candidates of the next one.",
		Steps: []Step{
			{World: calm, when: start(), Look: "world", Says: "Four nodes start, none knows a leader, and each waits for a random time: the arc around it runs out."},
			{World: calm, when: sent("vote", 1), Look: "world", Says: "The first arc to run out makes its node a candidate: it begins a new term, votes for itself, and asks the others for their votes."},
			{World: calm, when: turn("elected", "", 1), Look: "world", Says: "A majority has voted for it: it is elected, and the number of its term is its token."},
			{World: calm, when: turn("elected", "", 1).later(100 * ms), Look: "world", Says: "Its heartbeats tell the others, and start their arcs anew, so that none of them stands."},
			{World: split, when: sent("vote", 1), Look: "world", Says: "The same four in another world: here several arcs run out within the time that a message takes."},
			{World: split, when: sent("vote-reply", 1).later(60 * ms), Look: "log", Says: "Each of them has voted for itself, nobody has a majority, and this term will have no leader."},
			{World: split, when: turn("elected", "", 1), Look: "world", Says: "New random waits separate them, and the next term elects one."},
		},
	}
}

func scoutingStory() *Story {
	naive, sticky := scene("ping-pong", "blazingmq-naive"), scene("ping-pong", "blazingmq")
	back, calm := scene("rejoin", "blazingmq-sticky"), scene("rejoin", "blazingmq")
	return &Story{
		Name: "scouting", Title: "Ping-pong, and how scouting ends it", Says: "A node that cannot hear the leader deposes it, until it asks first.",
		Asks:    "What is a pre-vote for?",
		Answers: "To ask, before raising the term, whether a majority would vote. The others refuse while they hear a leader, so that a node which was cut off, or hears badly, does not depose a healthy one.",
		Steps: []Step{
			{World: naive, when: turn("elected", "n1", 1), Look: "world", Says: "n1 leads, by a protocol in which voters support any node that stands with a higher term."},
			{World: naive, when: turn("fault", "half-open", 2), Look: "world", Says: "The link between n1 and n2 breaks; both still reach the other three."},
			{World: naive, when: turn("elected", "n2", 1), Look: "world", Says: "n2 hears no leader, stands, and the others elect it, although n1 is alive."},
			{World: naive, when: turn("elected", "n1", 2), Look: "world", Says: "Now n1 hears no leader, stands with a higher term, and takes the leadership back."},
			{World: naive, when: after(60 * time.Second), Look: "lanes", Says: "So it goes on as long as the link is broken: the lanes of n1 and n2 alternate, and overlap."},
			{World: sticky, when: after(60 * time.Second), Look: "lanes", Says: "With scouting a node asks first whether the others hear a leader; they do, and n1 leads undisturbed."},
			{World: back, when: turn("heal", "isolate", 1), Look: "world", Says: "Another case, without scouting: n5 was cut off, stood again and again, and comes back with a high term."},
			{World: back, when: turn("stops", "n1", 1), Look: "lanes", Says: "The healthy leader n1 sees the higher term, and steps down for nothing."},
			{World: calm, when: after(100 * time.Second), Look: "lanes", Says: "With scouting n5 never raised its term, and its return disturbs nobody."},
		},
	}
}

func bullyStory() *Story {
	crash, slow := scene("crash", "bully"), scene("bully-slow-highest", "bully")
	return &Story{
		Name: "bully", Title: "The bully's cascade", Says: "The greatest id wins, at the price of n² messages, and of two leaders when it is only slow.",
		Asks:    "How many messages does the bully algorithm need?",
		Answers: "About n² at worst, when the lowest id notices first: each node asks all greater ones. About n at best, when the next greatest one notices: it only tells the others.",
		Steps: []Step{
			{World: crash, when: turn("elected", "n5", 1), Look: "world", Says: "n5 has the greatest id, so it tells all others that it is the coordinator, and asks nobody."},
			{World: crash, when: turn("down", "n5", 1), Look: "world", Says: "n5 is killed."},
			{World: crash, when: turn("down", "n5", 1).later(time.Second), Look: "world", Says: "Each node that misses it asks all nodes with greater ids, each of which answers and asks on: a cascade of some n² messages."},
			{World: crash, when: turn("elected", "n4", 1), Look: "log", Says: "n4 gets no answer from a greater id in time, and makes itself the coordinator."},
			{World: slow, when: turn("fault", "delay", 4), Look: "world", Says: "In another world n5 does not die: its messages only become slow."},
			{World: slow, when: turn("elected", "n4", 1), Look: "lanes", Says: "n4 cannot tell slow from dead, and makes itself coordinator beside n5: two lead at once."},
			{World: slow, when: turn("violation", "no-stale-write", 1), Look: "invariants", Says: "Both reach the same number, so that even the guarded resource cannot tell them apart, and accepts a stale write."},
		},
	}
}

func ringStory() *Story {
	w := scene("crash", "ring")
	return &Story{
		Name: "ring", Title: "The ring with a dead node", Says: "An election goes around a ring, and has to get past the node that has died.",
		Steps: []Step{
			{World: w, when: turn("elected", "n5", 1), Look: "world", Says: "The nodes form a ring: a message collects the ids that it passes, and the greatest of them leads."},
			{World: w, when: turn("down", "n5", 1), Look: "world", Says: "n5 leads, and is killed: the ring is broken at its place."},
			{World: w, when: turn("down", "n5", 1).later(904 * ms), Look: "world", Says: "An election message goes from neighbour to neighbour; a neighbour that does not acknowledge it is skipped."},
			{World: w, when: turn("elected", "n4", 1), Look: "world", Says: "It has come around, n4 is the greatest living id, and a second round tells everybody."},
		},
	}
}

func herdStory() *Story {
	w := &World{Protocol: "queue-zookeeper", Nodes: 15, Seed: 1, Seconds: 60, Hands: []sim.Op{{At: sim.Time(20 * time.Second), Kind: sim.OpKill, Node: sim.Leader}}}
	return &Story{
		Name: "herd", Title: "ZooKeeper's queue, without a herd", Says: "Fifteen candidates wait in one queue, and one of them wakes.",
		Asks:    "What is the herd effect, and how do ephemeral sequential nodes avoid it?",
		Answers: "If all who wait watch one entry, its end wakes them all, and all ask the store at once. With sequential entries each watches only the one before its own, so that one wakes.",
		Steps: []Step{
			{World: w, when: start(), Look: "world", Says: "Fifteen candidates enter a queue in the store: each makes an ephemeral entry with the next number."},
			{World: w, when: turn("leads", "", 1), Look: "world", Says: "The lowest number leads; each of the others watches only the entry before its own."},
			{World: w, when: turn("down", "", 1), Look: "world", Says: "The leader is killed, and its session ends some seconds later."},
			{World: w, when: turn("elected", "", 2), Look: "log", Says: "Its entry goes away, and one watch fires: that of the next in line, while the other thirteen sleep on."},
			{World: w, when: turn("leads", "", 2), Look: "lanes", Says: "It waits until the old lease is over by its own clock, and then leads."},
		},
	}
}

func leaseStory() *Story {
	w := scene("gc-pause", "lease")
	return &Story{
		Name: "lease", Title: "The lease, the pause of 45 seconds, and the token", Says: "Why a lease alone does not protect the data, and a token does.",
		Asks:    "A leader pauses for longer than its lease. What can go wrong?",
		Answers: "It wakes when another one leads, does not know it, and completes a write that it had begun. No lease can prevent that. The resource can, if it refuses tokens lower than the greatest that it has seen.",
		Steps: []Step{
			{World: w, when: turn("leads", "token 5", 1), Look: "lanes", Says: "n1 holds a lease of 30 s in a store, renews it, and writes to a resource with its token, 5."},
			{World: w, when: turn("freeze", "n1", 1), Look: "lanes", Says: "n1 has just checked that it leads, and freezes between the check and the write: a pause for garbage collection, say."},
			{World: w, when: turn("leads", "token 6", 1), Look: "lanes", Says: "After 30 s nobody has renewed the lease, and n3 leads with token 6."},
			{World: w, when: turn("thaw", "n1", 1), Look: "lanes", Says: "After 45 s n1 wakes in the middle of its write, and still believes that it leads."},
			{World: w, when: turn("stops", "lapsed", 1), Look: "world", Says: "A look at its clock tells n1 that its lease is over, and it stops; but the write has left by then."},
			{World: w, when: turn("write", "token 5", 1), Look: "lanes", Says: "Its write arrives with token 5; the resource has seen 6, and refuses it."},
		},
	}
}

func splitStory() *Story {
	bully, quorum := scene("minority-leader", "bully"), scene("minority-leader", "quorum")
	return &Story{
		Name: "split-brain", Title: "Split brain, with and without a majority", Says: "A cut makes two halves; a majority can only be on one side.",
		Asks:    "How does a majority prevent split brain?",
		Answers: "Two majorities of the same voters have a voter in common, and it votes for one leader a term. So one side of a cut at most can elect, and a leader on the other side cannot renew its lease.",
		Steps: []Step{
			{World: bully, when: turn("fault", "halves", 1), Look: "world", Says: "The network falls into two: n4 and n5, which leads, on one side, the other three on the other one."},
			{World: bully, when: turn("elected", "n3", 1), Look: "lanes", Says: "The bully does not count voters: n3 makes itself coordinator of its side, and two lead for as long as the cut lasts."},
			{World: quorum, when: turn("fault", "halves", 1), Look: "world", Says: "The same cut with a protocol that needs a majority: here the leader n1 is on the side of two."},
			{World: quorum, when: turn("stops", "n1", 1), Look: "lanes", Says: "n1 cannot renew its lease without a majority, and stops before the lease ends."},
			{World: quorum, when: turn("leads", "n3", 1), Look: "lanes", Says: "The side of three waits until what it promised to n1 is over, and then n3 leads: there is no overlap."},
			{World: quorum, when: turn("heal", "halves", 1).later(time.Second), Look: "world", Says: "After the healing n1 follows n3, and nothing is disturbed."},
		},
	}
}

func oneWayStory() *Story {
	deaf, mute := scene("deaf-leader", "quorum"), scene("mute-leader", "quorum")
	return &Story{
		Name: "one-way", Title: "Links that work in one direction", Says: "A leader that is not heard, and one that does not hear.",
		Steps: []Step{
			{World: deaf, when: turn("fault", "one-way", 1), Look: "world", Says: "The leader n1 hears nobody any more, but everybody hears its heartbeats."},
			{World: deaf, when: turn("stops", "n1", 1), Look: "lanes", Says: "Heartbeats alone prove nothing: without answers its lease is not renewed, and it stops in time."},
			{World: deaf, when: turn("leads", "n2", 1), Look: "lanes", Says: "Another one leads, after the old lease."},
			{World: mute, when: turn("fault", "one-way", 1), Look: "world", Says: "Now the other way round: n1 is heard by nobody."},
			{World: mute, when: turn("stops", "n1", 1), Look: "lanes", Says: "Nobody answers what it does not hear, so n1 stops here, too."},
			{World: mute, when: turn("leads", "n2", 1), Look: "lanes", Says: "n2 leads when the promises to n1 are over."},
		},
	}
}

func cloudflareStory() *Story {
	raft, quorum := scene("cloudflare-2020", "raft"), scene("cloudflare-2020", "quorum")
	return &Story{
		Name: "cloudflare", Title: "The Cloudflare outage of 2020", Says: "A switch fails in part, and Raft's leader changes again and again.",
		Steps: []Step{
			{World: raft, when: turn("fault", "", 14), Look: "world", Says: "A switch fails in part: n4 reaches only n2, and n5 only n3; n1, n2 and n3 still see each other."},
			{World: raft, when: turn("stops", "n1", 1), Look: "world", Says: "n4 hears no leader and stands with a higher term; through n2 that term reaches the leader, which steps down."},
			{World: raft, when: turn("elected", "", 4), Look: "lanes", Says: "The next leader fares the same: n4 or n5 depose it, and with every change all work stops."},
			{World: quorum, when: after(10 * time.Second), Look: "lanes", Says: "With a pre-vote, and voters who stay with a leader that they hear, n1 leads through all of it."},
		},
	}
}

func witnessStory() *Story {
	crash, silent := scene("crash", "quorum"), scene("crash-silent", "quorum")
	return &Story{
		Name: "witness", Title: "A crash that is heard, and one that is not", Says: "Another is elected at once; the lease decides when it may lead.",
		Asks:    "How fast can failover be, and what bounds it?",
		Answers: "First the failure has to be noticed: at once where a connection closes, after a timeout where nothing is heard. Then what was promised to the old leader has to run out, unless it has said that its work is over. A shorter lease is quicker, and bears shorter pauses.",
		Steps: []Step{
			{World: crash, when: turn("down", "n1", 1), Look: "world", Says: "The leader's process is killed, and the kernel closes its connections: the others hear of it at once."},
			{World: crash, when: turn("elected", "n2", 1), Look: "world", Says: "Three milliseconds later n2 is elected: a closed connection is reason enough to stand."},
			{World: crash, when: turn("leads", "n2", 1), Look: "lanes", Says: "It does not lead yet: only when all that was promised to n1 is over is it certain that nothing of n1's work goes on."},
			{World: silent, when: turn("down", "n1", 1), Look: "world", Says: "Without power nothing is closed, and nobody hears anything."},
			{World: silent, when: turn("elected", "n2", 1), Look: "lanes", Says: "The others miss n1 after a promise, elect n2, and by then the lease is over, too."},
		},
	}
}

func transferStory() *Story {
	planned := &World{Protocol: "quorum", Seed: 1, Seconds: 8, Hands: []sim.Op{{At: sim.Time(4 * time.Second), Kind: sim.OpTransfer, Node: sim.Leader}}}
	race := scene("transfer-race", "quorum")
	return &Story{
		Name: "transfer", Title: "A planned change of the leader", Says: "Stop, join, hand over: a leader that gives up by itself costs milliseconds.",
		Steps: []Step{
			{World: planned, when: turn("fault", "transfer", 1), Look: "world", Says: "An operator asks the leader to hand over."},
			{World: planned, when: turn("stops", "transferred", 1), Look: "log", Says: "It stops its work, waits until the work has returned, and only then tells its successor that the way is free."},
			{World: planned, when: turn("leads", "", 2), Look: "lanes", Says: "The successor leads at once: no promise has to run out, because the old leader has said that its work is over."},
			{World: race, when: turn("down", "n1", 1), Look: "world", Says: "In another world the old leader dies in the middle of it, 0.1 ms after it was asked."},
			{World: race, when: turn("leads", "n2", 1), Look: "lanes", Says: "Nobody has said that its work is over, so the successor waits for the lease: slower, and still one at a time."},
		},
	}
}

func membershipStory() *Story {
	w := scene("reconfig-fork", "quorum")
	return &Story{
		Name: "membership", Title: "A membership that changes on two sides", Says: "A cut-off leader is to remove a voter while its successor adds one.",
		Steps: []Step{
			{World: w, when: turn("fault", "isolate", 1), Look: "world", Says: "The leader n1 is cut off from the other four."},
			{World: w, when: turn("fault", "remove", 1), Look: "world", Says: "An operator asks n1 to remove n4: a change needs a majority of the voters, and n1 has none."},
			{World: w, when: turn("leads", "n2", 1), Look: "lanes", Says: "n1 has stopped, and n2 leads the others."},
			{World: w, when: turn("fault", "add", 1).later(time.Second), Look: "world", Says: "n2 is asked to add s1, has a majority, and does it: the first change never took effect, so there is one membership."},
			{World: w, when: turn("heal", "isolate", 1).later(time.Second), Look: "world", Says: "When n1 comes back it learns of the newer membership, and follows."},
		},
	}
}

func liarStory() *Story {
	bully, quorum := scene("byzantine-id", "bully"), scene("byzantine-id", "quorum")
	return &Story{
		Name: "liar", Title: "A node that lies about its name", Says: "Crash faults are not lies: a node that believes a name can be fooled.",
		Asks:    "Does this tolerate Byzantine faults?",
		Answers: "No: it survives crashes, pauses and lost messages, and not voters that lie; for f of those, 3f + 1 nodes are needed. Certificates keep a node from speaking in the name of another one.",
		Steps: []Step{
			{World: bully, when: turn("fault", "impostor", 1), Look: "world", Says: "n5, which led, is dead, and n1 sends its messages in n5's name."},
			{World: bully, when: turn("elected", "n1", 1), Look: "lanes", Says: "The bully believes the name in a message: n1, the lowest id, wins as if it were the greatest."},
			{World: quorum, when: turn("fault", "impostor", 1), Look: "world", Says: "The same lie among nodes whose connections carry certificates: the name in the certificate counts."},
			{World: quorum, when: turn("leads", "n2", 1), Look: "lanes", Says: "The impostor's messages are refused, and an honest node is elected; against voters that lie with their own name this does not help."},
		},
	}
}

func illStory() *Story {
	w := scene("gray-failure", "quorum")
	return &Story{
		Name: "ill", Title: "A leader that is ill", Says: "Slow is not dead: the leader itself has to say so.",
		Steps: []Step{
			{World: w, when: turn("fault", "delay", 4), Look: "world", Says: "All messages of the leader n1 become 200 ms late."},
			{World: w, when: after(9 * time.Second), Look: "lanes", Says: "Its lease is renewed in time all the same, so nobody deposes it: a slow leader is better than two changes."},
			{World: w, when: turn("stops", "unhealthy", 1), Look: "log", Says: "Its own health check fails: it stops its work, and hands over."},
			{World: w, when: turn("leads", "n2", 1), Look: "lanes", Says: "n2 leads, without waiting for the lease."},
			{World: w, when: after(20 * time.Second), Look: "lanes", Says: "When n1 is well again it does not take the leadership back."},
		},
	}
}

func clockStory() *Story {
	suspend, stopped := scene("suspend", "quorum"), scene("vm-stop", "quorum")
	return &Story{
		Name: "clocks", Title: "A machine that sleeps, and a clock that stops", Says: "What a lease assumes of clocks, and what happens where that breaks.",
		Asks:    "Do leases depend on synchronised clocks?",
		Answers: "No: each node measures lengths of time by its own clock. They assume that clocks run at about one rate; where even that fails, the token protects the data.",
		Steps: []Step{
			{World: suspend, when: turn("freeze", "n1", 1), Look: "world", Says: "The leader's laptop is closed: its processes stop, and one of its two clocks goes on."},
			{World: suspend, when: turn("leads", "n2", 1), Look: "lanes", Says: "Another leads, after the lease."},
			{World: suspend, when: turn("stops", "clock-jumped", 1), Look: "lanes", Says: "When it is opened, the clock that went on shows that the lease is over, before any work is done."},
			{World: stopped, when: turn("fault", "clock-rate", 1), Look: "world", Says: "A virtual machine that is stopped while it runs stops both clocks: this breaks the one assumption, that clocks run at about one rate."},
			{World: stopped, when: turn("violation", "exclusive", 1), Look: "lanes", Says: "By its own clock the old lease is still good, so two can prove that they lead: hatched in the lanes."},
			{World: stopped, when: turn("stops", "superseded", 1), Look: "lanes", Says: "The token is what saves the data then: the resource refuses the old one, and the first message ends the old term."},
		},
	}
}

func naiveStory() *Story {
	redlock, row, pool := scene("redlock-clock", "naive-redlock"), scene("row-skew", "naive-update"), scene("advisory-pool", "naive-advisory")
	quorum, lease := scene("redlock-clock", "quorum"), scene("row-skew", "lease")
	return &Story{
		Name: "naive", Title: "Redlock, the database row and the pooled lock, broken", Says: "Three locks in common use, each with the schedule that breaks it.",
		Asks:    "What is wrong with Redlock, or with UPDATE … WHERE expires_at < now()?",
		Answers: "Both trust that clocks show the same time: one that jumps or runs ahead makes two holders at once, and there is no token by which the resource could refuse the older one.",
		Steps: []Step{
			{World: redlock, when: turn("elected", "n1", 1), Look: "world", Says: "Redlock over five servers: n1 does not reach two of them, and holds its key at the other three, a majority."},
			{World: redlock, when: turn("fault", "clock-step", 1), Look: "world", Says: "Somebody sets the clock of one of these three forward, and the key there is over."},
			{World: redlock, when: turn("elected", "n3", 1), Look: "lanes", Says: "Another client gets a majority, too: two believe that they hold the lock, for as long as their times to live last."},
			{World: redlock, when: turn("write", "although", 1), Look: "lanes", Says: "Both have the same token, none: the resource cannot tell a stale write from a good one."},
			{World: quorum, when: turn("fault", "clock-step", 1).later(time.Second), Look: "lanes", Says: "The same step of a clock among voters that count promises by two clocks, one of which was not set: n1 leads on, alone."},
			{World: row, when: turn("elected", "n1", 1), Look: "world", Says: "A row in a database, with the time at which it expires, by the clock of its writer."},
			{World: row, when: turn("elected", "n2", 1), Look: "lanes", Says: "The clock of n2 is an hour fast, so for n2 the row has expired: two lead."},
			{World: lease, when: turn("fault", "clock-step", 1).later(time.Second), Look: "lanes", Says: "A row that holds a counter and no time: each waits by its own clock since it saw the last change, and no clock is compared."},
			{World: pool, when: turn("fault", "expire-early", 1), Look: "world", Says: "An advisory lock belongs to a connection, and here that connection ends while it is in a pool."},
			{World: pool, when: turn("elected", "n2", 1), Look: "lanes", Says: "The database gives the lock to n2; n1 asks by another connection whether all is well, is told yes, and leads on for ever."},
		},
	}
}

package scenario

import (
	"slices"
	"time"

	"github.com/electd/elect/lab/sim"
)

// crashes are the scenarios in which a leader dies.
func crashes() []*Scenario {
	kill := func(kind sim.OpKind) func(*stage) {
		return func(st *stage) {
			st.appoint()
			st.op(sim.Op{At: st.fault, Kind: kind, Node: st.ids[0]})
		}
	}
	others := slices.Concat(highestFirst, byTerm, storeOnes)
	return []*Scenario{
		{
			Name: "crash", Says: "The leader's process dies, and its kernel closes its connections.",
			build: kill(sim.OpKill), seeds: 20,
			parts: []part{
				{on: quorumOnly, expected: "another is elected two round trips and two syncs later, and leads when the promises to the dead one are over", judge: hinted},
				{on: blazings, expected: "a participant that sees its channel close stands after a random wait of at most 3 s", judge: afterWait},
				{on: slices.Concat(highestFirst, rafts, storeOnes), expected: "no participant uses that; another leads after the timeout", judge: byTimeout},
			},
		},
		{
			Name: "crash-silent", Says: "The leader's machine loses power: no connection closes.",
			build: kill(sim.OpPowerLoss), seeds: 20,
			parts: []part{
				{on: slices.Concat(quorumOnly, others), expected: "another leads after the timeout", judge: byTimeout},
			},
		},
	}
}

// hinted requires a takeover that begins with the end of the connections.
func hinted(c *verdict) {
	elected, leads := c.takeovers(c.fault)
	for i, d := range elected {
		c.want(d <= 10*time.Millisecond, "run %d: elected %s after the crash; want 10ms at most", i+1, shown(d))
	}
	longest := c.span(1)*100/95 + 10*time.Millisecond
	for i, d := range leads {
		c.want(d <= longest, "run %d: it leads %s after the crash; want %s at most, the promise on the slowest clock", i+1, shown(d), shown(longest))
	}
	for _, r := range c.runs {
		c.safe(r)
	}
	c.say("another is elected after %s, and leads after %s", spread(elected), spread(leads))
}

// afterWait requires a takeover within the random wait.
func afterWait(c *verdict) {
	elected, _ := c.takeovers(c.fault)
	const most = 3100 * time.Millisecond
	c.want(quantile(elected, 1) <= most, "elected %s after the crash; want %s at most", shown(quantile(elected, 1)), shown(most))
	c.want(quantile(elected, 1) > 100*time.Millisecond, "elected %s after the crash at most; want a random wait", shown(quantile(elected, 1)))
	c.want(quantile(elected, 0) < c.least()-c.beat, "elected %s after the crash at the least; want it before a timeout can be over, at %s", shown(quantile(elected, 0)), shown(c.least()-c.beat))
	for _, r := range c.runs {
		c.safe(r)
	}
	c.say("another is elected after %s", spread(elected))
}

// byTimeout requires a takeover that begins with a timeout.
func byTimeout(c *verdict) {
	patience, err := c.protocol.Patience(c.schedule.Config)
	c.want(err == nil, "patience: %v", err)
	elected, leads := c.takeovers(c.fault)
	least := c.least() - c.beat
	for i, d := range elected {
		c.want(d >= least, "run %d: elected %s after the crash; want a timeout, which cannot be over before %s", i+1, shown(d), shown(least))
	}
	for i, d := range leads {
		c.want(d <= patience, "run %d: it leads %s after the crash; want %s at most", i+1, shown(d), shown(patience))
	}
	for _, r := range c.runs {
		c.safe(r)
	}
	c.say("another leads after %s", spread(leads))
}

package check

// GroupGrounds returns small worlds in which a mutant of package group shows, by the rule that it breaks; nil if the
// checker does not look for it: it needs clocks, or is of no safety.
func GroupGrounds(mutant string) []GroupWorld {
	w, ok := map[string]GroupWorld{
		// A coordinator comes back, and another one has given the key away meanwhile.
		"keeps-earlier-tenure": {Members: 2, Tenures: 3, Versions: 2, Moves: 2, Settled: 2},

		"no-cover":               cold(),
		"no-acks":                cold(),
		"admits-in-cover":        cold(),
		"inherited-not-vouchers": cold(),
		"ack-before-kept":        cold(),
		"no-voucher-needed":      cold(),
		"one-may-be-missing":     cold(),

		"acks-of-connected-only":     disturbed(),
		"admission-outlives-session": disturbed(),
		"unadmitted-vouches":         {Members: 2, Tenures: 2, Versions: 3, Cuts: 1, Lapses: 1},
		"lapsed-vouches":             disturbed(),
		"closed-proves":              disturbed(),

		"unadmitted-assigned": {Members: 2, Tenures: 2, Versions: 3, Moves: 2, Settled: 1},
		"no-number":           {Members: 2, Tenures: 1, Versions: 2, Moves: 2, Settled: 2},
		"registry-of-arrival": {Members: 3, Tenures: 1, Versions: 3, Cuts: 1, Settled: 1},
		"acks-of-a-majority":  {Members: 4, Tenures: 1, Versions: 2, Settled: 3},
	}[mutant]
	if !ok {
		return nil
	}
	return []GroupWorld{w}
}

// cold is a world in which no coordinator was there, and the second one learns from the members of the first one.
func cold() GroupWorld { return GroupWorld{Members: 2, Tenures: 2, Versions: 3, Moves: 1} }

// disturbed is a world in which a connection is cut and a claim ends, in one tenure or the next.
func disturbed() GroupWorld {
	return GroupWorld{Members: 2, Tenures: 2, Versions: 3, Cuts: 1, Lapses: 1, Settled: 1}
}

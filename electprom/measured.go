package electprom

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/electd/elect/driver"
)

// measured has the metrics of what a back end measures. They are read at each scrape, and cost nothing between.
type measured struct {
	renewals, config *prometheus.Desc

	voters, quorum, contact, clockSteps, pauses, longestPause, saves *prometheus.Desc

	up, roundTrip, sent, received, dropped, lag, apart *prometheus.Desc // of each peer

	requests *prometheus.Desc // to a store
}

func newMeasured(desc func(name, help string, labels ...string) *prometheus.Desc) measured {
	return measured{
		renewals:     desc("elect_lease_renewals_total", "Times that the end of a proven lease of this participant moved on."),
		config:       desc("elect_config_info", "1, with a hash of what all participants of an election have alike: the lease and the membership.", "hash"),
		voters:       desc("elect_voters", "Voters of the membership that this participant knows."),
		quorum:       desc("elect_quorum_size", "Voters that are needed to elect."),
		contact:      desc("elect_last_quorum_contact_seconds", "Time since a quorum of the voters, this participant included, was heard."),
		clockSteps:   desc("elect_clock_steps_total", "Suspends of this machine, and clocks that were set."),
		pauses:       desc("elect_process_pauses_total", "Times that this process ran much later than planned."),
		longestPause: desc("elect_process_pause_longest_seconds", "Longest delay of this process since its start."),
		saves:        desc("elect_ballot_sync_duration_seconds", "Time of writes of the ballot to the disk."),
		up:           desc("elect_peer_up", "1 if there is a connection with this peer.", "peer"),
		roundTrip:    desc("elect_peer_round_trip_seconds", "Smoothed round-trip time to this peer.", "peer"),
		sent:         desc("elect_messages_sent_total", "Messages sent to this peer.", "peer"),
		received:     desc("elect_messages_received_total", "Messages received from this peer.", "peer"),
		dropped:      desc("elect_messages_dropped_total", "Messages to this peer that found no connection or a full queue.", "peer"),
		lag:          desc("elect_peer_lag_seconds", "Time since the message was sent that this voter answered last to the leader, this participant.", "peer"),
		apart:        desc("elect_peer_clock_apart", "1 if the clock of this voter runs faster or slower against that of the leader, this participant, than is assumed.", "peer"),
		requests:     desc("elect_store_request_duration_seconds", "Time of requests to the store.", "op", "result"),
	}
}

func (m *measured) describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		m.renewals, m.config, m.voters, m.quorum, m.contact, m.clockSteps, m.pauses, m.longestPause, m.saves,
		m.up, m.roundTrip, m.sent, m.received, m.dropped, m.lag, m.apart, m.requests,
	} {
		ch <- d
	}
}

func (m *measured) collect(ch chan<- prometheus.Metric, limits driver.Limits, v *driver.Measurements) {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	histogram := func(d *prometheus.Desc, of driver.Durations, labels ...string) {
		within := map[float64]uint64{}
		for bound, n := range of.Within {
			within[bound.Seconds()] = n
		}
		ch <- prometheus.MustNewConstHistogram(d, of.Count, of.Sum.Seconds(), within, labels...)
	}
	send(m.renewals, counter, float64(v.Renewals))
	alike := sha256.Sum256(fmt.Appendf(nil, "%d %s", limits.Lease, v.Membership))
	send(m.config, gauge, 1, hex.EncodeToString(alike[:4]))
	if v.Requests != nil { // there are no peers
		for _, r := range v.Requests {
			histogram(m.requests, r.Durations, r.Op, r.Result)
		}
		return
	}
	send(m.voters, gauge, float64(v.Voters))
	send(m.quorum, gauge, float64(v.Quorum))
	if v.QuorumContact >= 0 {
		send(m.contact, gauge, v.QuorumContact.Seconds())
	}
	send(m.clockSteps, counter, float64(v.ClockSteps))
	send(m.pauses, counter, float64(v.Pauses))
	send(m.longestPause, gauge, v.LongestPause.Seconds())
	histogram(m.saves, v.Saves)
	for i := range v.Peers {
		p := &v.Peers[i]
		id := strings.ToValidUTF8(p.ID, "\uFFFD")
		send(m.up, gauge, number(p.Up), id)
		if p.Up && p.RoundTrip > 0 {
			send(m.roundTrip, gauge, p.RoundTrip.Seconds(), id)
		}
		send(m.sent, counter, float64(p.Sent), id)
		send(m.received, counter, float64(p.Received), id)
		send(m.dropped, counter, float64(p.Dropped), id)
		if p.Voter != nil {
			send(m.lag, gauge, p.Voter.Lag.Seconds(), id)
			send(m.apart, gauge, number(p.Voter.Apart), id)
		}
	}
}

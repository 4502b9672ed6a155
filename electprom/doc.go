// Package electprom has the metrics of an election for Prometheus.
//
// A [Metrics] is a collector of one participant in one election; docs/metrics.md lists what it exports, and
// deploy/prometheus has alert rules for it. It registers itself nowhere, not even in the default registry of
// client_golang. Its counters come from the events of elect.Config.OnEvent, and the metrics of the leader from one
// subscription, which [Metrics.Attach] begins. Whether this participant leads is asked at each scrape, by Term.Check of
// the term of those events.
//
// Any number of goroutines may call the functions at the same time, except [Metrics.OnEvent], which an Election calls
// from one goroutine at a time. A scrape takes no lock that OnEvent takes, so a scraper that hangs does not delay the
// election. What is not known is not exported: who leads before Attach and after Close, and the health of a participant
// without a check.
package electprom

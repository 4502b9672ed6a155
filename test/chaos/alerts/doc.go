// Package alerts is a test: it causes the condition of each alert of deploy/prometheus on real processes, which a real
// Prometheus scrapes, sees the alert fire, mends the condition, and sees the alert end. With what was scraped it asks
// for each panel of deploy/grafana.
//
// There is nothing to import here. Linux only.
package alerts

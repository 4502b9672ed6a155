package electprom_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/electd/elect"
	"github.com/electd/elect/electprom"
	"github.com/electd/elect/store/memory"
)

// A program makes the metrics before it opens the election, because they count its events, and attaches them after.
func Example() {
	ctx := context.Background()
	openers := elect.Openers{"memory": memory.NewStore(0).Open}
	registry := prometheus.NewRegistry()
	metrics := electprom.New("nightly")
	registry.MustRegister(metrics)
	election, err := openers.Open(ctx, "memory:", "nightly", elect.Config{ID: "a", OnEvent: metrics.OnEvent})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer election.Close()
	metrics.Attach(election)
	defer metrics.Close()

	mux := http.NewServeMux() // to serve
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	_ = election.Lead(ctx, func(context.Context, *elect.Term) error {
		page := httptest.NewRecorder() // as Prometheus sees it
		mux.ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
		for line := range strings.Lines(page.Body.String()) {
			if strings.HasPrefix(line, "elect_is_leader") || strings.HasPrefix(line, "elect_leader_term") {
				fmt.Print(line)
			}
		}
		return nil
	})
	// Output:
	// elect_is_leader{election="nightly"} 1
	// elect_leader_term{election="nightly"} 1
}

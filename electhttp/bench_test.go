package electhttp_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/store/memory"
)

// BenchmarkStatus asks for the state over one connection.
func BenchmarkStatus(b *testing.B) {
	p := join(b, memory.NewStore(0), "a", electhttp.Config{})
	p.win(b)
	server := httptest.NewServer(p)
	defer server.Close()
	for b.Loop() {
		resp, err := server.Client().Get(server.URL + "/v1/elections/job")
		if err != nil || resp.StatusCode != 200 {
			b.Fatal(resp, err)
		}
		if _, err := bufio.NewReader(resp.Body).ReadBytes('\n'); err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

// BenchmarkWatchers measures how long it takes until each of 1,000 clients over connections of their own has seen a
// new leader. The clients share the machine with the server.
func BenchmarkWatchers(b *testing.B) {
	const clients = 1000
	p := join(b, memory.NewStore(0), "a", electhttp.Config{})
	server := httptest.NewServer(p)
	defer server.Close()
	ctx, cancel := context.WithCancel(b.Context())
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	seen := make(chan time.Time, clients)
	client := http.Client{Transport: &http.Transport{}}
	for range clients {
		r, _ := http.NewRequestWithContext(ctx, "GET", server.URL+"/v1/elections/job/watch", nil)
		resp, err := client.Do(r)
		if err != nil || resp.StatusCode != 200 {
			b.Fatal(resp, err)
		}
		reading.Go(func() {
			defer resp.Body.Close()
			last := ""
			for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
				_, token, led := strings.Cut(lines.Text(), `"leader":{"id":"a","token":`)
				if token, _, _ = strings.Cut(token, ","); led && token != last {
					last = token
					seen <- time.Now()
				}
			}
		})
	}
	var took []time.Duration
	for b.Loop() {
		term, err := p.election.Campaign(ctx)
		if err != nil {
			b.Fatal(err)
		}
		begun := time.Now()
		for range clients {
			took = append(took, (<-seen).Sub(begun))
		}
		_ = term.Release(ctx)
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "ms-p99")
	b.ReportMetric(took[len(took)-1].Seconds()*1e3, "ms-max")
}

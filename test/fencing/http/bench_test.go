//go:build linux

package http_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencefile"
	"github.com/electd/elect/fence/fencehttp"
)

// BenchmarkProxy compares a guarded proxy with httputil.ReverseProxy, before the same
// upstream with the same transport, in one run: one request to each in turn, the first one
// in turn, too. The metrics are medians and 99th percentiles in microseconds, and the
// ratios of guarded to bare. The mark is in a directory, as that of elect fence proxy.
func BenchmarkProxy(b *testing.B) {
	for _, c := range []struct {
		name string
		size int
	}{{"small", 100}, {"1MB", 1 << 20}} {
		b.Run(c.name, func(b *testing.B) {
			upstream := startUpstream(b)
			at, err := url.Parse(upstream)
			if err != nil {
				b.Fatal(err)
			}
			bare := &httputil.ReverseProxy{Transport: fencehttp.NewTransport("http"), Rewrite: func(p *httputil.ProxyRequest) {
				p.SetURL(at)
				p.SetXForwarded()
			}}
			mark, err := fencefile.NewMark(b.TempDir(), fencefile.Config{})
			if err != nil {
				b.Fatal(err)
			}
			if err := mark.Install(b.Context(), register); err != nil {
				b.Fatal(err)
			}
			urls := [2]string{serve(b, bare), serveProxy(b, upstream, mark, fence.GuardConfig{})}
			client := leader(&http.Transport{})
			ctx := fence.NewContext(b.Context(), 5)
			body := append([]byte("7\n"), bytes.Repeat([]byte("x"), c.size)...)
			request := func(which int) time.Duration {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, urls[which]+"/", bytes.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				start := time.Now()
				resp, err := client.Do(r)
				if err != nil {
					b.Fatal(err)
				}
				_, err = io.Copy(io.Discard, resp.Body)
				took := time.Since(start)
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp.Status, err)
				}
				_ = resp.Body.Close()
				return took
			}
			for range 50 { // connections, the mark, and warm code
				request(0)
				request(1)
			}
			var times [2][]time.Duration
			for first := 0; b.Loop(); first = 1 - first {
				times[first] = append(times[first], request(first))
				times[1-first] = append(times[1-first], request(1-first))
			}
			percentile := func(which, p int) float64 {
				slices.Sort(times[which])
				return float64(times[which][min(len(times[which])*p/100, len(times[which])-1)].Nanoseconds()) / 1e3
			}
			b.ReportMetric(0, "ns/op") // the sum of both means nothing
			for p, name := range map[int]string{50: "p50", 99: "p99"} {
				b.ReportMetric(percentile(0, p), "bare-"+name+"-µs")
				b.ReportMetric(percentile(1, p), "guarded-"+name+"-µs")
				b.ReportMetric(percentile(1, p)/percentile(0, p), name+"-ratio")
			}
		})
	}
}

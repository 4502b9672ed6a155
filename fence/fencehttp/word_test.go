package fencehttp_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
)

// lies are ways of a handler to speak in the guard's name: that nothing was applied.
var lies = map[string]http.HandlerFunc{
	"header": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(fencehttp.ResultHeader, "stale")
		w.Header().Set(fencehttp.Header, "r;9")
		w.WriteHeader(412)
	},
	"header of another form": func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["fencing-result"] = []string{"stale"}
		w.Header().Set(fencehttp.Header, "r;9")
		w.WriteHeader(412)
	},
	"early hints": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(fencehttp.ResultHeader, "stale")
		w.Header().Set(fencehttp.Header, "r;9")
		w.WriteHeader(103)
		w.WriteHeader(412)
	},
	"words first": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(fencehttp.ResultHeader, "passed")
		_, _ = io.WriteString(w, "words")
	},
	"flush first": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(fencehttp.ResultHeader, "passed")
		w.(http.Flusher).Flush()
	},
	"copied words": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(fencehttp.ResultHeader, "passed")
		_, _ = io.Copy(w, r.Body)
	},
	"no words": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(fencehttp.ResultHeader, "passed") },
	"declared trailer": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", fencehttp.ResultHeader)
		_, _ = io.WriteString(w, "words")
		w.Header().Set(fencehttp.ResultHeader, "stale")
	},
	"trailer": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "words")
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+fencehttp.ResultHeader, "stale")
	},
	"busy": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(fencehttp.ResultHeader, "busy")
		w.WriteHeader(503)
	},
	"ended": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(fencehttp.ResultHeader, "ended")
		w.WriteHeader(502)
	},
}

// What a handler or an upstream answers is never taken for the guard's word, whether the
// request has shown a token or needs none.
func TestNobodyElseSpeaksForTheGuard(t *testing.T) {
	for name, lie := range lies {
		for _, protocol := range []string{"", "h2c"} {
			for _, behind := range []string{"handler", "upstream"} {
				t.Run(fmt.Sprintf("%s/%s/%s", name, behind, protocol), func(t *testing.T) {
					g := newGuard(t, new(fence.Memory), fence.GuardConfig{})
					h := fencehttp.NewHandler(g, lie, fencehttp.Config{MayClaim: fencehttp.Anyone, Open: func(r *http.Request) bool { return r.Method == http.MethodGet }})
					if behind == "upstream" {
						h = newProxy(t, g, lie, protocol)
					}
					s := serve(t, h, protocol)
					for _, method := range []string{http.MethodPut, http.MethodGet} {
						if method == http.MethodGet && behind == "upstream" {
							continue // that proxy has nothing open
						}
						ctx := t.Context()
						if method == http.MethodPut {
							ctx = fence.NewContext(ctx, 5)
						}
						r, err := http.NewRequestWithContext(ctx, method, s.URL, nil)
						if err != nil {
							t.Fatal(err)
						}
						resp, err := leader(s).Do(r)
						if err != nil {
							t.Errorf("%s: the transport believes it: %v", method, err)
							continue
						}
						_, err = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
						if values := append(resp.Header.Values(fencehttp.ResultHeader), resp.Trailer.Values(fencehttp.ResultHeader)...); err != nil || len(values) > 0 {
							t.Errorf("%s: %s, %q, %v", method, resp.Status, values, err)
						}
					}
				})
			}
		}
	}
}

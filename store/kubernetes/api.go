package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/electd/elect/store/internal/register"
)

// api makes requests to an API server. Elections that share one wait together when the server throttles them.
type api struct {
	server            *url.URL
	requests, watches *http.Client
	until             atomic.Pointer[time.Time] // no request is sent before that time; nil: at any time
}

// refusal is an answer that is not a success, as the server words it.
type refusal struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Details struct {
		Kind string `json:"kind"`
	} `json:"details"`
}

func (r *refusal) Error() string {
	return strings.TrimSpace(fmt.Sprintf("Kubernetes answers %d: %.400s", r.Code, strings.Join(strings.Fields(r.Message), " ")))
}

// isRefusal reports whether Kubernetes has answered with one of these codes.
func isRefusal(err error, codes ...int) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && slices.Contains(codes, r.Code)
}

const (
	maxAnswer = 4 << 20 // bytes; an object has at most 1.5 MiB
	maxPause  = time.Minute
)

// do makes a request, and decodes the answer into out unless that is nil. A request that is throttled is made again
// when the server has said. An error that is not a [register.ErrNotSent] leaves open whether a write was made.
func (a *api) do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("%w: %w", register.ErrNotSent, err)
		}
	}
	for {
		if err := a.wait(ctx); err != nil {
			return err
		}
		text, err := a.once(ctx, method, path, query, body)
		switch {
		case isRefusal(err, http.StatusTooManyRequests):
			continue
		case isRefusal(err, http.StatusConflict):
			return register.ErrConflict
		case isRefusal(err, http.StatusRequestTimeout):
			return err
		case err != nil:
			if r, ok := errors.AsType[*refusal](err); ok && r.Code < http.StatusInternalServerError {
				return fmt.Errorf("%w: %w", register.ErrNotSent, err)
			}
			return err
		case out == nil:
			return nil
		}
		if err := json.Unmarshal(text, out); err != nil {
			return fmt.Errorf("the answer of Kubernetes does not parse: %w", err)
		}
		return nil
	}
}

// wait waits while the server throttles, by the monotonic clock: one that is set back would block all requests.
func (a *api) wait(ctx context.Context) error {
	for {
		until := a.until.Load()
		if until == nil {
			return nil
		}
		pause := time.Until(*until)
		if pause <= 0 {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w: Kubernetes throttles requests (429), and is asked again in %v", register.ErrNotSent, pause.Round(time.Millisecond))
		}
	}
}

func (a *api) once(ctx context.Context, method, path string, query url.Values, body []byte) ([]byte, error) {
	resp, err := a.send(ctx, a.requests, method, path, query, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("an answer of more than %d bytes", maxAnswer)
	case resp.StatusCode/100 == 2:
		return text, nil
	}
	return nil, a.refused(resp, text)
}

func (a *api) send(ctx context.Context, client *http.Client, method, path string, query url.Values, body []byte) (*http.Response, error) {
	u := a.server.JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", register.ErrNotSent, err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "elect")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return client.Do(req)
}

// refused is the error of an answer. After 429 nothing is sent before the time that the server names.
func (a *api) refused(resp *http.Response, text []byte) error {
	r := &refusal{}
	if json.Unmarshal(text, r) != nil || r.Message == "" {
		r.Message = string(text[:min(len(text), 200)])
	}
	if r.Code = resp.StatusCode; r.Code == http.StatusTooManyRequests {
		pause := time.Second
		if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n >= 0 {
			pause = min(time.Duration(n)*time.Second, maxPause)
		}
		at := time.Now().Add(max(pause, 10*time.Millisecond))
		for was := a.until.Load(); (was == nil || was.Before(at)) && !a.until.CompareAndSwap(was, &at); was = a.until.Load() {
		}
	}
	return r
}

// event is one of a watch.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// watch calls seen for each event of the objects that a query names, until the watch ends. It returns nil if the
// server ended it as planned.
func (a *api) watch(ctx context.Context, path string, query url.Values, seen func(event) error) error {
	if err := a.wait(ctx); err != nil {
		return err
	}
	resp, err := a.send(ctx, a.watches, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		return a.refused(resp, text)
	}
	for d := json.NewDecoder(resp.Body); ; {
		var e event
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if e.Type == "ERROR" {
			r := &refusal{}
			if err := json.Unmarshal(e.Object, r); err != nil || r.Code == 0 {
				return fmt.Errorf("the watch has ended with %.200s", e.Object)
			}
			return r
		}
		if err := seen(e); err != nil {
			return err
		}
	}
}

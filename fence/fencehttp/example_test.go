package fencehttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencehttp"
)

// A server guards its own data. A real one has a mark that is durable.
func ExampleNewHandler() {
	guard, err := fence.NewGuard(new(fence.Memory), []fence.Resource{"orders"}, fence.GuardConfig{})
	if err != nil {
		panic(err)
	}
	orders := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := fence.FromContext(r.Context())
		fmt.Fprint(w, "written with ", token)
	})
	server := httptest.NewServer(fencehttp.NewHandler(guard, orders, fencehttp.Config{MayClaim: fencehttp.Anyone}))
	defer server.Close()

	client := &http.Client{Transport: &fencehttp.Transport{Resource: "orders"}}
	write := func(token fence.Token) {
		ctx := fence.NewContext(context.Background(), token) // term.Token() of the leader
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("{}"))
		resp, err := client.Do(r)
		if stale, ok := errors.AsType[*fence.StaleError](err); ok {
			fmt.Println(stale)
			return
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		fmt.Println(string(text))
	}
	write(41)
	write(42)
	write(41) // the first leader, who has not heard
	// Output:
	// written with 41
	// written with 42
	// stale fencing token: 41 shown, the resource has seen 42
}

// A new leader claims before it reads anything.
func ExampleClient() {
	secret, err := fencehttp.ParseSecret("x4Tq0vTz3mYd8hZK") // a real one is read from a file: ReadSecret
	if err != nil {
		panic(err)
	}
	guard, _ := fence.NewGuard(new(fence.Memory), []fence.Resource{"orders"}, fence.GuardConfig{})
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	server := httptest.NewServer(fencehttp.NewHandler(guard, handler, fencehttp.Config{MayClaim: secret.IsShown}))
	defer server.Close()

	ctx := context.Background()
	orders, err := fencehttp.NewClient(server.URL, "orders", fencehttp.ClientConfig{Secret: secret})
	if err != nil {
		panic(err)
	}
	fmt.Println(orders.Claim(ctx, 42))
	highest, err := orders.Highest(ctx)
	fmt.Println(highest, err)
	write := func(token fence.Token) {
		r, _ := http.NewRequest(http.MethodPost, server.URL+"/orders/7", strings.NewReader("{}"))
		resp, err := orders.Write(ctx, token, r)
		if err != nil {
			fmt.Println(errors.Is(err, fence.ErrStale))
			return
		}
		defer resp.Body.Close()
		fmt.Println(resp.Status)
	}
	write(42)
	write(41)
	// Output:
	// <nil>
	// 42 <nil>
	// 200 OK
	// true
}

// An upstream that knows nothing of fencing stands behind a proxy. The same is elect
// fence proxy, with a mark on the disk.
func ExampleNewProxy() {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") }))
	defer upstream.Close()

	guard, _ := fence.NewGuard(new(fence.Memory), []fence.Resource{"orders"}, fence.GuardConfig{})
	at, _ := url.Parse(upstream.URL)
	proxy, err := fencehttp.NewProxy(guard, at, nil, fencehttp.Config{MayClaim: fencehttp.Anyone})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(proxy)
	defer server.Close()

	resp, err := http.Get(server.URL)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 428 Precondition Required
}

// A proxy that starts waits for what one before it may have left at the upstream. A real one
// has a mark that is durable, and the time of the longest request.
func ExampleSettle() {
	kept := new(fence.Memory)
	_ = kept.Raise(context.Background(), "orders", 41) // by the process before, which was killed
	mark := fencehttp.Settle(kept, time.Hour)
	guard, err := fence.NewGuard(mark, []fence.Resource{"orders"}, fence.GuardConfig{})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	err = guard.Claim(ctx, "orders", 42)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, fence.ErrUnknownOutcome)) // claim again
	// Output: true true
}

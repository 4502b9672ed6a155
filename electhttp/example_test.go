package electhttp_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/electd/elect"
	"github.com/electd/elect/electhttp"
	"github.com/electd/elect/store/memory"
)

// A program mounts the Handler in its own server.
func Example() {
	ctx := context.Background()
	handler, err := electhttp.New(electhttp.Config{Name: "nightly", ID: "web-1"})
	if err != nil {
		log.Fatal(err)
	}
	defer handler.Close()
	openers := elect.Openers{"memory": memory.NewStore(0).Open}
	election, err := openers.Open(ctx, "memory:", "nightly", elect.Config{ID: "web-1", OnEvent: handler.OnEvent})
	if err != nil {
		log.Fatal(err)
	}
	defer election.Close()
	if err := handler.Attach(election); err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/elect/", http.StripPrefix("/elect", handler))

	ask := func(path string) {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
		fmt.Println(path, answer.Code)
	}
	ask("/elect/leader")
	_ = election.Lead(ctx, func(context.Context, *elect.Term) error {
		ask("/elect/leader")
		return nil
	})
	ask("/elect/leader")
	// Output:
	// /elect/leader 503
	// /elect/leader 200
	// /elect/leader 503
}

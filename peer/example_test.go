package peer_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/peer"
)

// Three voters, here in one process. On three machines each of them makes its
// own Config, all with the same list.
func ExampleNew() {
	data, err := os.MkdirTemp("", "peer")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(data)
	var voters []peer.Peer
	var listeners []net.Listener
	for i := range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0") // a free port for each
		if err != nil {
			log.Fatal(err)
		}
		listeners = append(listeners, l)
		voters = append(voters, peer.Peer{ID: fmt.Sprintf("n%d", i+1), Addr: l.Addr().String()})
	}
	ctx := context.Background()
	var nodes []*peer.Node
	for i, v := range voters {
		node, err := peer.New(ctx, voters, "nightly", v.ID, peer.Config{Data: data, Listener: listeners[i]})
		if err != nil {
			log.Fatal(err)
		}
		defer node.Close()
		nodes = append(nodes, node)
	}
	fmt.Println(strings.ReplaceAll(nodes[0].Plan().String(), "; ", ";\n"))

	mandate, err := nodes[0].Campaign(ctx, driver.Candidacy{Exclusive: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("n1 leads:", mandate.Check() == nil)
	for state := range nodes[2].Watch(ctx) {
		if state.Leader != nil {
			fmt.Println("n3 sees", state.Leader.ID)
			break
		}
	}
	if err := mandate.Release(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 3 voters, one may fail;
	// profile lan: heartbeat 100ms, promise 1s, lease 899ms;
	// another is active at most 1.19s after a silent leader
	// n1 leads: true
	// n3 sees n1
}

// A program lists peers among the back ends that it wants, and takes the
// election from a URL. Here three programs run as one, and each stands once.
func ExampleOpen() {
	data, err := os.MkdirTemp("", "peer")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(data)
	url := "peer://" + strings.Join(threeAddrs(), ",") + "?profile=fast&data=" + data

	ctx := context.Background()
	openers := elect.Openers{"peer": peer.Open}
	var programs sync.WaitGroup
	turn := make(chan int, 1)
	turn <- 1
	var opened []*elect.Election
	for _, id := range []string{"n1", "n2", "n3"} {
		election, err := openers.Open(ctx, url, "nightly", elect.Config{ID: id})
		if err != nil {
			log.Fatal(err)
		}
		defer election.Close()
		opened = append(opened, election)
	}
	for _, election := range opened {
		programs.Go(func() {
			err := election.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
				n := <-turn // nobody else leads: nobody else is here
				fmt.Println("leader", n, "may act:", term.Check() == nil)
				turn <- n + 1
				return nil
			})
			if err != nil {
				log.Fatal(err)
			}
		})
	}
	programs.Wait()
	// Output:
	// leader 1 may act: true
	// leader 2 may act: true
	// leader 3 may act: true
}

// A program that stands in an election among peers gives its own id, and a log: there a node says which voters it waits
// for, and why there is no leader.
func ExampleOpen_program() {
	program := func(ctx context.Context, work func(context.Context, fence.Token) error) error {
		openers := elect.Openers{"peer": peer.Open}
		election, err := openers.Open(ctx, "peer://n1@10.0.0.1:7400,n2@10.0.0.2:7400,n3@10.0.0.3:7400?certs=/etc/elect/certs&data=/var/lib/elect",
			"nightly", elect.Config{ID: "n1", Logger: slog.Default()})
		if err != nil {
			return err
		}
		defer election.Close()
		return election.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
			return work(ctx, term.Token())
		})
	}
	_ = program
}

// threeAddrs lists three voters at ports that are free, and below those that the
// kernel gives to outgoing connections.
func threeAddrs() []string {
	var list []string
	for port := 17400; len(list) < 3; port++ {
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		if l, err := net.Listen("tcp", addr); err == nil {
			defer l.Close()
			list = append(list, fmt.Sprintf("n%d@%s", len(list)+1, addr))
		}
	}
	return list
}

package link
import ("testing";"time";"net";"context";"syscall";"github.com/electd/elect/peer/internal/wire";"github.com/electd/elect/protocol")
func TestIdleTmp(t *testing.T) {
	w := secure(t, "n1","n2","n3")
	ls := map[protocol.NodeID]net.Listener{}
	ids := []protocol.NodeID{"n1","n2","n3"}
	for _, id := range ids { ls[id]=w.listen(id) }
	ns := map[protocol.NodeID]*Link{}
	mem := &protocol.Membership{Version:1, Voters: []protocol.Voter{{ID:"n1"},{ID:"n2"},{ID:"n3"}}}
	ready := make(chan struct{})
	for _, id := range ids {
		peers := map[protocol.NodeID]string{}
		for _, o := range ids { if o != id { peers[o]=w.addrs[o] } }
		ns[id] = Start(Config{Hello: w.hello(id), Listener: ls[id], Peers: peers, TLS: w.identity(id), Idle: time.Second,
			Admit: func(*wire.Hello, wire.Caller) (*wire.Welcome, *wire.Refusal) { return nil, nil },
			Welcomed: func(protocol.NodeID, *wire.Welcome) {}, Refused: func(protocol.NodeID, *wire.Refusal) {}, Closed: func(protocol.NodeID, uint64) {},
			Serve: func(context.Context, Caller, *wire.Request, func(*wire.Response) error) {},
			Receive: func(from protocol.NodeID, l *wire.Letter) { <-ready; if l.Message.Type == "heartbeat" { a := *l; a.Message.Type="ack"; ns[id].Send(from, &a) } },
		})
	}
	close(ready)
	time.Sleep(2*time.Second)
	var a, b syscall.Rusage
	syscall.Getrusage(0, &a); begun := time.Now()
	tick := time.NewTicker(100*time.Millisecond)
	for i := range 200 {
		<-tick.C
		l := &wire.Letter{Message: protocol.Message{Type:"heartbeat", Incarnation:1, Seq: uint64(i), Term: 4, Promise: time.Second, Membership: mem, Ranking: []protocol.NodeID{"n2","n3"}, Metadata: `{"address":"10.0.0.1:80"}`}}
		ns["n1"].Send("n2", l); ns["n1"].Send("n3", l)
	}
	syscall.Getrusage(0, &b)
	cpu := time.Duration(b.Utime.Nano()+b.Stime.Nano()-a.Utime.Nano()-a.Stime.Nano())
	t.Logf("cpu %v in %v: %.3f %%; %+v", cpu, time.Since(begun), 100*float64(cpu)/float64(time.Since(begun)), ns["n1"].Peers())
	for _, n := range ns { n.Close() }
}

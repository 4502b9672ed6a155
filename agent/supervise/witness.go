package supervise

import "context"

// Witness prepares to tell the voters, or the store, that a process is dead with all its work, so that the next leader
// need not wait for the end of its lease. KeeperMain takes one; peer.Witness, etcd.Witness, kubernetes.Witness and what
// sqlstore.Witness returns are some. The testament is that of the mandate given to Command.Under or Guardian.Lead. It
// tells the witness for which process it speaks, to whom, and with which credentials. It reaches the keeper over a
// socket.
//
// It is called in the keeper, soon after the start of the command, and may take its time, for example to open
// connections. speak is called at most once, and of equal testaments for one only, after the death of every process that
// the testament is about: the work, and the process that held the mandate and could have renewed it. One that is only
// frozen is not dead. speak has about a second: then its ctx ends, and the process with it. The ctx of the Witness itself
// ends when the testament is void; it must not speak afterwards.
//
// An error or a panic of either becomes a line on the keeper's stderr and has no other effect: the lease then runs
// out by itself. A panic in a goroutine that the witness starts would crash the keeper, so there must be none. It
// must start no processes.
type Witness func(ctx context.Context, testament []byte) (speak func(ctx context.Context) error, err error)

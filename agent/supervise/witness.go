package supervise

import "context"

// Witness prepares to say to others that a process is dead with all its work,
// so that they need not wait until its lease has run out. KeeperMain is handed
// one; peer.Witness is one. The testament is what Command.Testament was, and
// tells the witness who it speaks for, to whom, and with which credentials.
//
// It is called in the keeper, soon after the command was started, and may take
// its time: to open connections, for example. speak is called at most once,
// after the death of everybody whom the testament is about, and has about a
// second: its ctx ends then, and the process with it. The ctx of the Witness
// itself ends when the testament is void; nothing may be said afterwards.
//
// An error of either, and a panic, becomes a line on the keeper's stderr and
// nothing else: what was not said lapses by itself. A panic in a goroutine that
// the witness starts would crash the keeper, and must not be. It must start no
// processes.
type Witness func(ctx context.Context, testament []byte) (speak func(ctx context.Context) error, err error)

// maxTestament bounds Command.Testament, in bytes.
const maxTestament = 1 << 20

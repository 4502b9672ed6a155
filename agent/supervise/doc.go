// Package supervise runs one command under leadership, so that the command and
// everything it ever started is dead before the leadership can be another's.
//
// # The keeper
//
// Start does not start the command itself. It starts a second, small process
// of the same program, the keeper, which starts the command in a process group
// of its own and holds a pipe from its parent, the lifeline. The keeper kills
// the whole family when
//
//   - the command ends,
//   - the lifeline closes, because the parent died in whatever way,
//   - the deadline passes that the parent sets by Command.Lease and keeps
//     pushing out: a dead man's switch for a parent that is frozen,
//   - it is asked to, by [Family.Stop], [Family.Kill] or a SIGTERM of its own.
//
// It then says that it lets go ([Family.Gone]), and only after that unlocks
// the files in Command.Hold: explicitly, on the shared open file description,
// so that a frozen parent's copy does not keep the lock. The parent keeps its
// own copies of these files, and the command inherits them on high descriptors
// (from 200 on, where the limit allows): so the lock is held as long as any
// one of the three is there, and if the keeper alone is killed, the parent
// kills the family before it lets go.
//
// # What is covered
//
// On Linux the keeper is a child subreaper and finds its descendants in /proc:
// those that called setsid, forked twice, closed their descriptors or ignore
// every signal, too. Whoever is killed or frozen (the command, the parent, the
// keeper alone), the family is dead before the lock is free. For the death of
// the keeper alone this takes [AdoptOrphans] in the parent; without it only
// the command's process group, and what can be found below its members, is
// killed then, and a member that called setsid and lost its parent survives.
//
// Not covered: the keeper and the parent killed at the same instant (the
// command then gets SIGKILL from the kernel, its descendants do not; the lock
// is held for as long as a descendant has it inherited); the keeper stopped
// and the parent killed at the same instant (the family lives on, and with it
// the lock is held, until somebody continues or kills the keeper); set-uid descendants
// of an ordinary user, whom that user may not kill (the keeper then waits for
// them with the lock held, and says so in the log); work handed to somebody
// else's process, such as systemd, cron or a container engine; a /proc that is
// not mounted.
//
// On the other Unix systems there is the same keeper, lifeline and deadline,
// but only the process group is killed: a descendant that called setsid or
// setpgid survives. The deadline there counts on a clock that may stand still
// while the machine sleeps. Elsewhere Start returns [ErrUnsupported].
//
// # Signals
//
// The command starts with the signal mask and the ignored signals that this
// process was started with, as far as Go's runtime lets them through: an
// ignored SIGHUP (nohup) or SIGINT stays ignored, others are reset. A program
// that calls signal.Notify for a signal that signal.Ignored reports undoes
// that. Descriptors that this process inherited are passed on to the command,
// with their numbers.
//
// # Concurrency and failure
//
// All methods of Family may be called by any number of goroutines. A Family
// costs two goroutines and one operating system thread in the parent, one more
// goroutine with a Lease and one with a Terminal. A
// process supervises as many families as it wants. Start fails without having
// left anything behind and without having touched the locks.
package supervise

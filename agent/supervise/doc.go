// Package supervise runs one command under leadership, so that the command and everything it ever started is dead
// before another candidate can lead.
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
//   - the deadline passes that the parent sets by Command.Lease and keeps pushing out: this covers a frozen parent,
//   - it is asked to, by [Family.Stop], [Family.Kill] or a SIGTERM of its own.
//
// It then announces that it releases the locks ([Family.Gone]), and only after that unlocks the files in
// Command.Hold. It unlocks them explicitly, on the shared open file description, so that a frozen parent's copy does
// not keep the lock. The parent keeps its own copies of these files, and the command inherits them on high
// descriptors (from 200 on, where the limit allows). So the lock is held as long as any one of the three lives. If
// the keeper alone is killed, the parent kills the family before it releases the lock.
//
// # What is covered
//
// On Linux the keeper is a child subreaper and finds its descendants in /proc, including those that called setsid,
// forked twice, closed their descriptors or ignore every signal. If any one of the command, the parent and the keeper
// is killed or frozen, the family is dead before the lock is free. For the death of the keeper alone this takes
// [AdoptOrphans] in the parent. Without it the parent kills only the command's process group and what it can find
// below its members, and a member that called setsid and lost its parent survives.
//
// If leadership is a lease, the family is dead before the lease ends: the larger the family, the earlier the keeper
// begins to kill, but at most three eighths of the lease before the end. A family that is alive after the end is an
// overrun, which the log and [Family.Overrun] report.
//
// Not covered: the keeper and the parent killed at the same instant, or the keeper while the parent is stopped (the
// command then gets SIGKILL from the kernel, its descendants do not); the keeper stopped and the parent killed at the
// same instant (the family lives until the keeper is continued or killed); processes in state D, which cannot be
// killed; set-uid descendants of an ordinary user, which that user may not kill. In all these cases the locks stay
// held as long as a descendant has inherited them, or the keeper holds them, waits and logs for which process. A
// lease runs out, and the next leader starts beside the old family. Also not covered: work that is handed to a
// process outside of the family, such as systemd, cron or a container engine; a daemon in another pid namespace than
// the family's own. If /proc is not mounted, or shows another pid namespace, nothing is started: [ErrProc].
//
// On the other Unix systems there is the same keeper, lifeline and deadline,
// but only the process group is killed: a descendant that called setsid or
// setpgid survives. The deadline there counts on a clock that may stand still
// while the machine sleeps. Elsewhere Start returns [ErrUnsupported].
//
// # The witness
//
// If leadership is a lease, the other candidates must wait until it has run out, even if the leader is dead, unless a
// trusted process tells them. The keeper can know, and its [Witness] tells them, for a process that left a testament
// (Command.Testament, or Guardian.Lead). They believe it for that incarnation of the process, and for all earlier
// ones. So the witness speaks only when
//
//   - the family is dead: the keeper has no child left,
//   - the parent is dead, as a pidfd shows that the keeper opened while the parent was its parent. The witness waits
//     for a parent that was killed and is not yet dead. A frozen parent is alive, and no witness speaks for it. A
//     guarded program has no such parent: it is the family;
//   - no other process holds the lock of the files in Keep. Each family of that process, its keeper, and each process
//     in it has them open, as copies of one open file description, whose lock is free when the last copy is closed.
//     So the keeper opens the files anew, closes its copies, and takes the lock. If it succeeds there is no other
//     family or keeper of the same life, no later life has begun, and none begins while the witness speaks. Each life
//     had to take the lock before it began, so the work of all earlier ones was dead then, if it was done in families
//     that kept the file. Of two families of one life the keeper of the one that ends last has its witness speak.
//
// So the order at the end is: the family is dead; the witness speaks; the keeper ends, and with it the lock. The
// witness is prepared while the command runs, and never delays the killing. It has one second, after which the keeper
// ends in any case. If it fails, only time is lost. What a keeper does not cover (above) is not covered here either:
// work that this process started by itself, and not as a Command, is not in the family. Use [Guard] then, whose
// family is everything that the program starts. There are witnesses on Linux from 5.3 on.
//
// # Guarded programs
//
// [Guard] puts a program that embeds the library under a keeper of its own. The process that the user started stays
// as the front, and below it are the keeper and the program itself:
//
//	front ──lifeline── keeper ── program ── whatever it starts
//
// The front is the parent of the sections above. It only passes on signals and the terminal, and ends as the program
// did. The program has a socket to the keeper. Over it the program tells until when it leads (by its mandate, or
// without an end if its token fences the work), the files to keep, and the testament. So a frozen or dead front does
// not harm the deadline. The Guardian does that for each term when it is elect.Config.Guardian. A frozen program is
// dead before the lease ends. If the program is killed, its children are dead within milliseconds, and the witness
// speaks.
//
// # Speed
//
// Half of what Start takes is the start of the keeper. [Prepare] does that in
// advance. A spare keeper waits in one system call.
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
// All methods of Family may be called by any number of goroutines. A Family costs two goroutines and one operating
// system thread in the parent, one more goroutine with a Lease and one with a Terminal; a spare keeper, one goroutine
// and one thread. A process supervises as many families as it wants. A Start that fails leaves no process behind and
// has not touched the locks.
package supervise

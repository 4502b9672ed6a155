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
//   - the deadline comes that the parent sets by Command.Lease and keeps
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
// every signal, too. If any one of them is killed or frozen (the command, the parent,
// the keeper), the family is dead before the lock is free. For the death of
// the keeper alone this takes [AdoptOrphans] in the parent; without it only
// the command's process group, and what can be found below its members, is
// killed then, and a member that called setsid and lost its parent survives.
//
// Where leadership is a lease, the family is dead before the lease ends: the larger
// the family, the earlier the keeper begins to kill, but at most three eighths of
// the lease before the end. A family that is alive after the end is an overrun,
// which the log and [Family.Overrun] report.
//
// With a [Containment] of the level [Cgroup] the family is in a cgroup of its own as well.
// The kernel kills all in it at once and says when they are dead, and what two killed
// supervisors have left is killed by the next [Contain] of that name, or by the next
// Start in the same place, before it returns.
//
// After [Containment.GuardNetwork] the kernel drops what the family sends over IP after the
// lease that Command.Lease last told, whoever is frozen, starved or dead. docs/containment.md
// has what is covered, way by way.
//
// Not covered, but for what a cgroup lets a later life find: the keeper and the parent
// killed at the same instant, or the keeper while the parent is stopped (the command then
// gets SIGKILL from the kernel, its descendants do not); the keeper stopped and the parent
// killed at the same instant (the family lives on until somebody continues or kills the
// keeper); processes in state D, which cannot be killed; set-uid descendants of an
// ordinary user, which that user may not kill. In all these cases the locks stay held as long as a descendant
// has inherited them, or the keeper holds them, waits and logs for which process. A
// lease runs out, and the next leader starts beside the old family. Also not covered:
// work handed to somebody else's process, such as systemd, cron or a container engine;
// a daemon in another pid namespace than the family's own. If /proc is not mounted, or
// shows another pid namespace, nothing is started: [ErrProc].
//
// On the other Unix systems there is the same keeper, lifeline and deadline,
// but only the process group is killed: a descendant that called setsid or
// setpgid survives. The deadline there counts on a clock that may stand still
// while the machine sleeps. Elsewhere Start returns [ErrUnsupported].
//
// # The witness
//
// Where leadership is a lease, others must wait until it has run out, although the
// leader may be dead: unless somebody that they believe says so. The keeper can
// know, and its [Witness] says it, for a process that left a testament
// (Command.Testament, or Guardian.Lead). The others believe it for that incarnation
// of the process, and for all incarnations before it. So the
// witness speaks only when
//
//   - the family is dead: the keeper has no child left,
//   - the parent is dead: a pidfd says so, which the keeper has opened while the
//     parent was its parent. A parent that was killed and is not dead yet is waited
//     for. A frozen parent is alive, and nobody speaks for it. A guarded program
//     has no such parent: it is the family;
//   - nobody has the lock of the files that were to be kept. Each family of that
//     process, its keeper, and each process in it has them open, as copies of one
//     open file description, whose lock is free when the last copy is closed. So
//     the keeper opens the files anew, closes its copies, and takes the lock. It
//     succeeds if there is no other family or keeper of the same life, and it
//     means that no later life has begun either, nor does one while the witness
//     speaks. As each life had to take the lock before it began, the work of all
//     earlier ones was dead then, if it was done in families that kept the file.
//     Of two families of one life the one that ends last speaks.
//
// So the order at the end is: the family is dead; the witness speaks; the keeper
// ends, and with it the lock. The witness is prepared while the command runs,
// and never holds up the killing: it has one second, after which the keeper ends
// whatever it does. If it fails nothing is lost but time. What is not covered by
// a keeper (below) is not covered here: work that this process started by itself
// and not as a Command is none of the family; use [Guard] then, whose family is
// all that the program starts. There are witnesses on Linux from 5.3 on.
//
// # Guarded programs
//
// [Guard] puts a program that embeds the library under a keeper of its own. The
// process that was started stays as the front, and below it are the keeper and
// the program itself:
//
//	front ──lifeline── keeper ── program ── whatever it starts
//
// The front is the parent of all the above, does nothing but pass on signals and
// the terminal, and ends as the program did. The program tells the keeper by a
// socket of their own until when it leads (by its mandate, or without an end where
// its token fences the work) and what is to be kept and told, so that the front may be
// frozen or dead without harm to the deadline. The Guardian does that for each term
// when it is elect.Config.Guardian. It is dead before the lease ends when it is frozen; when it is
// killed, its children are dead within milliseconds, and the witness speaks.
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
// All methods of Family may be called by any number of goroutines. A Family
// costs two goroutines and one operating system thread in the parent, one more
// goroutine with a Lease and one with a Terminal; a spare keeper, one goroutine
// and one thread. A process supervises as many families as it wants. Start fails
// without having left anything behind and without having touched the locks.
package supervise

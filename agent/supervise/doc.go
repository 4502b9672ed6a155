// Package supervise runs a command, or the program itself, under leadership: the command and everything that it ever
// started is dead before the leadership can be another's.
//
// # The keeper
//
// Start starts a second, small process of the same program, the keeper. The keeper starts the command in a process
// group of its own, and holds a pipe from its parent, the lifeline. It kills the whole family when
//
//   - the command ends,
//   - the lifeline closes, because the parent died,
//   - the deadline comes, which the parent sets by the lease of the mandate and keeps pushing out,
//   - it is asked to, by [Family.Stop], [Family.Kill] or a SIGTERM of its own.
//
// It then says so ([Family.Gone]), and only after that unlocks the locks of the mandate ([Command.Under]). Parent,
// keeper and command all have these open, the command on descriptors from 200 on, where the limit allows. A keeper
// that needs no witness begins before most packages of its program are initialized, as an effect of importing this
// package.
//
// # What is covered
//
// On Linux the keeper is a child subreaper and finds its descendants in /proc: also those that called setsid, forked
// twice, closed their descriptors or ignore every signal. If any one of the command, the parent and the keeper is
// killed or frozen, the family is dead before the lock is free. If only the keeper dies, this needs [AdoptOrphans] in
// the parent. If /proc is not mounted, or shows another pid namespace, nothing is started: [ErrProc].
//
// With a lease the family is dead before the lease ends: the larger the family, the earlier the keeper begins to
// kill, but at most three eighths of the lease before the end. A family that is alive after the end is an overrun,
// which the log and [Family.Overrun] report.
//
// With a [Containment] of the level [Cgroup] the kernel kills the family at once, and what two killed supervisors
// have left is killed by the next [Contain] of that name, or by the next Start in the same place, before it returns.
// With [Containment.GuardNetwork] the kernel drops what the family sends over IP after the end of the lease. A
// [TermGuard] does the same for processes that a program starts by itself, without a keeper.
// docs/containment.md lists what each covers.
//
// Not covered, unless a later Contain or Start finds it by its cgroup: the keeper and the parent killed at the same
// instant, or one of them while the other is stopped; processes in state D; set-uid descendants of an ordinary user;
// work handed to another service, such as systemd, cron or a container engine; a daemon in another pid namespace than
// the family's own. docs/keeper.md says for each when the lock is free.
//
// On the other Unix systems the keeper kills the process group only, and its deadline counts on a clock that may
// stand still while the machine sleeps. Elsewhere Start returns [ErrUnsupported].
//
// # The witness
//
// With a lease, others must wait until it has run out, although the leader may be dead, unless a witness that they
// believe says so. The [Witness] of [KeeperMain] speaks for a process whose mandate has a testament, on Linux from
// 5.3 on, when all of this is proven:
//
//   - The family is dead: the keeper has no child left.
//   - The parent is dead: a pidfd says so, which the keeper opened while the parent was its parent. A guarded program
//     has no such parent: it is the family.
//   - No process has the lock of the files that the mandate keeps. Each family and keeper of that process has them
//     open as copies of one open file description. The keeper opens the files anew, closes its copies, and takes the
//     lock. So no other family or keeper of the same life is left, no later life has begun, and none begins while the
//     witness speaks. Each life takes the lock before it does any work, so the work of all earlier ones is dead, too.
//
// The witness is prepared while the command runs, has one second, and never delays the killing. If it fails, only
// time is lost. Work that this process started by itself and not as a Command is not covered: use [Guard], whose
// family is all that the program starts.
//
// # Guarded programs
//
// [Guard] puts a program that embeds the library under a keeper of its own:
//
//	front ──lifeline── keeper ── program ── whatever it starts
//
// The front is the process that was started. It passes on signals and the terminal, and ends as the program did. The
// program's [Guardian], as elect.Config.Guardian, tells the keeper at each term until when the program leads, so the
// front may be frozen or dead. A frozen program is dead before the lease ends; if it is killed, its children are dead
// within milliseconds.
//
// # Signals and descriptors
//
// The command starts with the signal mask and the ignored signals that this process was started with, as far as Go's
// runtime lets them through: an ignored SIGHUP (nohup) or SIGINT stays ignored, others are reset. Descriptors that
// this process inherited are passed on to the command, with their numbers.
//
// # Concurrency and failure
//
// All methods of Family may be called by any number of goroutines. A Family costs two goroutines and one operating
// system thread in the parent, one more goroutine with a lease and one with a Terminal; a spare keeper ([Prepare]),
// one goroutine and one thread. A process supervises as many families as it wants. When Start fails, nothing is left
// behind, and the locks were not touched.
package supervise

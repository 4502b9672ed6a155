// Package runtime drives a machine of package protocol: it feeds the machine what
// happens, and carries out what the machine wants. It is the only code that does so
// outside the simulator and the checker, and it knows no protocol.
//
// A [Runner] owns one machine. Everything that happens to the machine is one turn
// after the other: a letter, a connection that was closed, a save that has ended, a
// timer, a call of the participant's own code ([Runner.Do]). Nothing in a turn waits
// for a disk or a network. A turn is made by the Runner's goroutine, or by the one that
// brings a letter if no other turn is under way, which saves a wake-up for each
// heartbeat.
//
// What a Runner owes its machine is stated at package protocol's Effects and Input, and
// is tested here:
//
//   - The view is published before the orders are told, and they are told before
//     anything is sent; a store is asked last. The context of work whose term has ended ends before the view
//     that says so is published.
//   - A message leaves after the save that it names is durable. A save that fails
//     releases nothing, and one that succeeds releases what names it or an earlier one.
//   - Nothing that a machine says in a life leaves before the save of its boot is durable.
//   - The clock is read after what is received, and before what is sent.
//   - What has arrived is handed in before a timer that has come due.
//   - A mandate that has lapsed stays so.
//
// The world is behind narrow interfaces: [Disk], [Transport], [Store], [Recorder], and a
// clock. What a participant does besides in a turn is in its [Hooks].
//
// A disk that fails is told to the machine, and logged once. A panic of a machine or of
// a hook is not caught. After [Runner.Run] has returned nothing is done any more, and
// every call says so.
package runtime

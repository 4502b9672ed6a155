// Package runtime drives a machine of package protocol: it passes inputs to the machine, and carries out the
// machine's effects. It is the only code that does so outside the simulator and the checker, and it knows no
// protocol.
//
// A [Runner] owns one machine. All inputs come in turns, one after the other: a message, a connection that was closed,
// a save that has ended, a timer, a call of the participant's own code ([Runner.Do]). Nothing in a turn waits for a
// disk or a network. The Runner's goroutine makes a turn, or the one that brings a message if no other turn is under
// way, which saves a wake-up for each heartbeat.
//
// Package protocol's Effects and Input state a Runner's obligations. They are tested here:
//
//   - The view is published before the orders are told, and they are told before
//     anything is sent; a store is asked last. The context of work whose term has ended ends before the view
//     that says so is published.
//   - A message leaves after the save that it names is durable. A save that fails
//     releases nothing, and one that succeeds releases what names it or an earlier one.
//   - No message of a life leaves before the save of its boot is durable.
//   - The clock is read after a receive, and before a send.
//   - What has arrived is handed in before a timer that has come due.
//   - A mandate that has lapsed stays so.
//
// A Runner uses narrow interfaces: [Disk], [Transport], [Store], [Recorder], and a clock. Further actions of a
// participant in a turn are in its [Hooks].
//
// A failure of the disk is reported to the machine, and logged once. A panic of a machine or of a hook is not caught.
// After [Runner.Run] has returned nothing is done any more, and every call returns an error or false.
package runtime

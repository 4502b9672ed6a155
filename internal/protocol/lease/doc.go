// Package lease elects over one record with compare-and-set: a Kubernetes
// Lease, a row of SQL, a key of Consul, NATS or one Redis node, an object with
// If-Match. A [Machine] is owned by one goroutine; it never fails, and what it
// cannot go on from is told in [protocol.View].Fault.
//
// # Protocol
//
// The record says who holds it, under which nonce and count, by which attempt,
// and for how long others have to wait. A holder renews it; a candidate that has
// seen one version of it for as long as it says replaces that version. The
// count is the token.
//
//	watching → acquiring → holding → fencing → releasing → watching
//	              (read first where an outcome is not known)
//
// The idea is that of Gray and Cheriton's leases (1989), as Chubby and
// Kubernetes' client-go use it. What is different: a holder's claim counts from
// before its request was sent and is shortened by the drift of clocks, a wait
// counts from a sight on the waiter's own clock, and no clock is ever compared
// with that of another machine. An outcome that is not known is read, never
// assumed.
//
// Rule by rule:
//
//	L1  what is written                     machine.go, hold.go, release.go
//	L2  one write at a time, attempts       attempt.go, answer.go
//	L3  since when a version is seen        sight.go; older ones: floor.go
//	L4  how long it is waited for           sight.go
//	L5  when nothing has to be waited for   sight.go; absent records: acquire.go
//	L6  the count                           acquire.go
//	L7  what opens a term                   acquire.go, hold.go
//	L8  how long it goes on                 hold.go; a jump of clocks: machine.go
//	L9  how it is given up                  release.go
//	L10 who tries when                      herd.go, sight.go
//	L11 what is refused                     config.go; of a store: its back end
//
// # Guarantee
//
// While every clock's rate is within 1 ± ρ of true time, no two machines have a
// proven lease at one true instant, and tokens rise from tenure to tenure.
// While the work of a term that was given up returns, its lease is renewed, so
// that nobody else leads before as long as the store can be reached. A tenure
// that is over never comes back; the next one has another nonce and count.
//
// The record of a holder that fell silent is taken when its duration, or the
// candidate's own if that is longer, has passed since its last renewal was seen;
// one that was released, at once. The wait is longer, MaxDuration, where the
// record cannot tell whose lease may be left: when there is none (so before the
// very first election, too), when a foreign hand has emptied it, when it is
// older than one that was seen, and when it comes from another incarnation of the
// store.
//
// # What it assumes, and what breaks it
//
// Of the back end: a reading of the clock before a request leaves and after its
// answer has come; a write that is conditional on the exact version, and
// versions that never come again with another content; one answer to each ask;
// Answer.Store, where the store has an incarnation, in every answer that is
// done. Reads and watches may lag, which costs time or, to a holder, its term,
// never exclusivity. A back end refuses stores that expire the record by
// themselves, do not log it, or acknowledge before a write is durable (L11).
//
// A store that loses acknowledged writes (a failover of Redis) hands counts out
// again. If it names another incarnation after that, leases stay exclusive, but
// tokens may repeat: the operator has to raise the era. If it names none, two
// may lead. A record that is deleted, by somebody who resets the election, loses
// the count as well, unless a candidate that has seen it is left or versions
// are global. A clock beyond ρ breaks the claim; then only the token helps.
//
// # A store that goes back and does not say so
//
// A store that is restored from a backup, or an asynchronous replica that takes
// over, may show an older record under the same incarnation, and give versions
// again. Each process keeps the latest record that it has seen: its count, its
// attempt and, with GlobalVersions, its version (floor.go). What an answer shows
// is compared with what had been seen before the request was sent, because a
// watch may be late, or ahead of an answer. Then this holds:
//
//   - No process is elected with a token that is not above every count it has seen.
//   - A leader that is answered with less than it has seen ends its term, for the
//     reason WentBack, and neither renews nor releases that record.
//   - A candidate that finds less than it has seen waits for the longest lease
//     there may be, and takes a greater count than any it has seen; with
//     GlobalVersions one above any version it has seen, which is more than the
//     tenures had that it has not seen up to there.
//
// What no process can know is what it has not seen. One that has seen none of
// what was lost takes the older record for the present one: it may lead beside a
// holder that has not asked since, with the same token or a lower one. A request
// that was on its way, and a candidate that has not looked since, may meet a
// version again under other content. So after a restore leases may overlap and
// tokens repeat: stop the participants or raise the era, and fence. A reader that
// lags looks the same, and costs a leader its term. The machine does not halt: it
// could not tell when to go on, and the next tenure is above all that it knows.
//
// # Where it goes beyond the rules it was made from
//
// An absent record is made at once and then waited for as one without a mark,
// rather than waited for, made, and taken. A maker whose request was delayed
// cannot know whether the record was made, held and deleted in between, so the
// wait has to come after the making in any case; before it, it proves nothing
// more. A candidate that finds the record without a holder or a mark waits for
// the longest lease there may be, not for what the record says: client-go's
// release writes one second there.
//
// Another incarnation of the store counts as another version, because a
// failover may bring back a version that was seen long ago. An acquisition that
// is acknowledged by another incarnation than showed the version it replaced
// opens no term: the record is left as a stranger's, for the longest wait. The
// same goes for a tenure that is being released. Only a holder whose claim still
// stands knows that nobody can have led meanwhile, and takes the incarnation
// over.
//
// A jump of the clocks also begins a wait anew, because a clock that was set
// forward makes a wait look longer than it was.
package lease

// Name is the protocol's name in configurations and traces.
const Name = "lease"

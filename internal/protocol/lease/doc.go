// Package lease elects over one record with compare-and-set: a Kubernetes Lease, a row of SQL, a
// key of Consul, NATS or one Redis node, an object with If-Match. A [Machine] is owned by one
// goroutine. It never fails; if it cannot go on, [protocol.View].Fault says why.
//
// # Protocol
//
// The record names its holder, with a nonce, a count and an attempt, and says how long others have
// to wait. A holder renews it. A candidate that has seen one version for that long replaces that
// version. The count is the token.
//
//	watching → acquiring → holding → fencing → releasing → watching
//	              (read first where an outcome is not known)
//
// The idea is that of Gray and Cheriton's leases (1989), as Chubby and Kubernetes' client-go use
// it. The differences: a holder's claim counts from before its request was sent and is shortened by
// the drift of clocks; a wait counts from a sight, on the waiter's own clock; clocks of two
// computers are never compared. An unknown outcome is read, never assumed.
//
// The rules and where they are implemented:
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
// While every clock's rate is within 1 ± ρ of true time, no two machines have a proven lease at one
// true instant, and tokens rise from tenure to tenure. After a leader gives up its term it renews
// the lease until its work has returned, so no other participant leads before that, as long as the
// leader reaches the store. A tenure that is over never comes back; the next one has another nonce
// and count.
//
// The record of a holder that fell silent is taken when its duration, or the candidate's own if
// that is longer, has passed since its last renewal was seen. A released record is taken at once.
// The wait is MaxDuration where the record cannot tell whose lease may be left: when there is no
// record (so before the very first election, too), when another program has emptied it, when it is
// older than one that was seen, and when it comes from another incarnation of the store.
//
// # What it assumes, and what breaks it
//
// Of the back end: a reading of the clock before a request leaves and after its answer has come; a
// write that is conditional on the exact version, and versions that never come again with another
// content; one answer to each ask; Answer.Store, where the store has an incarnation, in every
// answer with StatusDone. Reads and watches may lag, which costs time or, in a holder, the term,
// but never exclusivity. A back end refuses stores that expire the record by themselves, do not log
// it, or acknowledge a write before it is durable (L11).
//
// A store that loses acknowledged writes (a failover of Redis) gives counts out again. If it then
// reports another incarnation, leases stay exclusive, but tokens may repeat: the operator has to
// raise the era. If it reports none, two participants may lead. If an operator deletes the record
// to reset the election, the count is lost too, unless a candidate is left that has seen it or
// versions are global. A clock beyond ρ breaks the claim; then only the token protects.
//
// # A store that goes back and does not say so
//
// A store that is restored from a backup, or an asynchronous replica that takes over, may show an
// older record under the same incarnation, and give versions out again. Each process keeps the
// latest record that it has seen: its count, its attempt and, with GlobalVersions, its version
// (floor.go). It compares an answer with what it had seen before the request was sent, because a
// watch may be late, or ahead of an answer. Then this holds:
//
//   - No process is elected with a token that is not above every count it has seen.
//   - A leader whose answer shows less than it has seen ends its term, for the reason WentBack, and
//     neither renews nor releases that record.
//   - A candidate that finds less than it has seen waits for the longest lease possible, and takes
//     a greater count than any it has seen; with GlobalVersions, a count above any version it has
//     seen, which is above the counts of the tenures that it has missed up to there.
//
// A process cannot detect the loss of what it has not seen. One that has seen nothing of the loss
// takes the older record for the present one: it may lead beside a holder that has not sent a
// request since, with the same token or a lower one. A request on its way, and a candidate that has
// not read since, may meet a version again with other content. So after a restore leases may
// overlap and tokens repeat: stop the participants or raise the era, and fence. A lagging reader
// looks the same, and costs a leader its term. The machine does not halt: it could not tell when to
// go on, and the next tenure is above all that it knows.
//
// # Where it goes beyond its rules
//
// An absent record is created at once and then waited for like one without a mark. The alternative
// is to wait first, then create it, then take it. But a maker whose request was delayed cannot know
// whether the record was created, held and deleted in between, so the wait has to come after the
// creation in any case; before it, it proves nothing more. A candidate that finds the record
// without a holder or a mark waits for the longest lease possible, not for the record's duration:
// client-go's release writes one second there.
//
// Another incarnation of the store counts as another version, because a failover may bring back a
// version that was seen long ago. If an acquisition is acknowledged by another incarnation than the
// one that showed the replaced version, it opens no term: the record is treated as another
// participant's, for the longest wait. The same applies to a tenure that is being released. Only a
// holder whose claim is live knows that no other participant can have led meanwhile, and adopts the
// new incarnation.
//
// A jump of the clocks also restarts a wait, because a clock that was set forward makes a wait look
// longer than it was.
package lease

// Name is the protocol's name in configurations and traces.
const Name = "lease"

// Package group has the two machines that hand out leadership of many keys: a [Coordinator], which is the leader of an
// ordinary election, and a [Member] for each participant. Like the machines of package protocol they are pure: time
// and chance are inputs, and what is to be done is returned as data.
//
// An election E, over any back end, elects the coordinator. E gives it a tenure with a token's count T, which rises,
// and a Check that returns nil in at most one tenure at one instant. Nothing else is stored anywhere. Each member has
// one session with the coordinator, renewed by one poll, whatever the number of keys. Leadership of a key has the
// contract of package elect: exclusive by proof, told in time, rising tokens, stop–join–release.
//
// # Rules
//
// The promise is D_V ([Settings].Promise), the claim D_L = Drift.Claim(D_V), and W ([Settings].Cover) the wait of a new
// coordinator, not less than any D_V in use (G14).
//
//   - G1 session. A session is (member, process, epoch). When its claim has lapsed it is over for ever: the epoch
//     rises, and work that still runs is an overrun of the old one. A member's id says nothing about older sessions:
//     only words of the same process do, or a witness about that process.
//   - G2 attachment. The coordinator greets a connection with T. Only then does the member compose its report, with a
//     number that rises with each attachment and each session. Only messages of the latest attachment count, at both
//     ends. Reports count in the order of their numbers. A closed connection proves nothing.
//   - G3 promise and claim. A coordinator takes in what has arrived, reads the clock, asks Check, decides, sends. When
//     Check is not nil the tenure is over. A poll renews the promise to its receipt + D_V, a report to its receipt +
//     max(W, D_V). The member claims until the send of the poll that was answered + D_L.
//   - G4 assignment. A key goes to a session under (T, n) only if it is known to the coordinator, held by nobody and
//     covered by no overrun, and the session is admitted, has shown in a poll that it knows that, and is attached. The
//     member begins on arrival if its claim is live; otherwise it answers "released".
//   - G5 release. Revoke, stop, join, released(key, token). A release counts for that token only. What a new report
//     does not list is free. A reported key that is another's is revoked.
//   - G6 end of a session. Its promise has run out, or a witness says that the process and its work are dead, or it
//     said goodbye after its work was joined, or a newer epoch of the same process is there.
//   - G7 cover. A new coordinator keeps nothing of earlier tenures. It takes no key to be free until t0 + W, with t0
//     read after the tenure was proven, or until the account is complete (G9). A key reported with a live claim is
//     adopted under its token.
//   - G8 registry. After cover the coordinator numbers versions of the set of its sessions, sends each to the vouchers,
//     and admits a session only when every voucher, inherited ones too, has acknowledged a version that contains it. It
//     tells a session that it admits the registry of that moment. An acknowledgement is sent after the registry is
//     kept. Admission ends with the session, takes effect at a live claim, is repeated until a poll shows it, and a
//     report without it takes it back.
//   - G9 account. A session vouches, in a report, with the registry that it keeps, if it is admitted and its claim is
//     live. Cover ends early when at least one has vouched and each session in the intersection of what was vouched
//     is attached with its report, or over.
//   - G10 vouchers. All sessions vouch, or a few ([Settings].Vouchers): one counts from the decision on, and is told
//     the registry of that moment.
//   - G11 tokens. (T, n) in one number; n rises with each assignment of a key in a tenure. Before it overflows the
//     coordinator resigns.
//   - G12 overruns that a member reports cover their keys until it says that they have ended.
//   - G13 deserted. A coordinator that has not heard half of its members for 2·D_V resigns, and stands aside for as
//     long, W + D_V after t0 at the earliest. It learns the number of its members from them, who have it from the last
//     coordinator.
//   - G14 settings. A coordinator refuses a member whose promise is longer than its W or that of an admitted session, or
//     whose W is shorter than its promise or that of one. So those that are admitted in one tenure fit each other, and
//     the next coordinator of them waits long enough. During cover it refuses none that is admitted: it resigns, and
//     stands aside. Its own wait is W, or that of the coordinator that its process saw last in E, if that is longer. A
//     wait goes on to count for as long as it is after a next coordinator was seen; a candidacy shows the process's. An
//     observer has no W.
//   - G15 standing. A process stands in E when the latest coordinator that it saw has admitted its session, until that is
//     over, it is refused for its settings, or a later coordinator refuses it; when it sees that nobody leads E and
//     was not refused; and when no coordinator was seen or heard for as long as it would wait (G14). While E shows
//     another coordinator, heard or not, it is no silence; a refusal while E shows nobody does not end it. So a group
//     has candidates again a wait after nobody leads it.
//
// A member obeys no coordinator below the greatest T that it has seen.
//
// # Keys
//
// A coordinator knows the keys that a session wants, holds or has an overrun of. It assigns nothing by itself: the
// input [Moves] has what placement wants, and [Effects] what placement has to be told. A free key is assigned; one that
// is held is revoked, and reserved until it is free. A move that does not fit the state is dropped, and told in
// Changes.
//
// # Cost
//
// A poll costs the same whatever the number of keys and members, and allocates nothing. A report costs time in
// proportion to the keys that the coordinator knows, the end of a session in proportion to those that it held; no other
// step looks at all keys. What a coordinator knows of a process it keeps for its tenure, some 100 bytes each.
// What one member may have at a coordinator is bounded: see [MaxKeys] and the constants beside it.
//
// # Failure
//
// No input makes a machine panic. Messages that do not fit, such as those of an older attachment, are ignored; a
// connection that can never be right is refused with a text that says what would be.
package group

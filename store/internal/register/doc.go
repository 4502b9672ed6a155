// Package register elects over one record of a store that has compare-and-set. It drives
// the machine of internal/protocol/lease by the runtime that all machines share, and
// makes of it a [driver.Elector]. What differs between stores is behind [Register].
//
// Here, once for all stores, is: the record's form; one request in flight, with a timeout
// that follows from the lease; outcomes that are not known, which the machine resolves by
// reading; what observers are shown; and the release that is awaited.
package register

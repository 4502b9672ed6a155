// Package partitions tests examples/partitions: brokers that share the partitions of a log are killed and frozen under
// load, the coordinator of their group among them, at a real PostgreSQL. Its tests start processes; a failure leaves
// their logs in the directory of the test.
package partitions

package group

// The mutants of the driver: the machines are right, and what drives them is not. They show that the world finds
// mistakes of a driver, too.
const (
	CarelessWitness = "driver-witness-early" // a witness speaks when the process is dead, and its work is not
	CarelessCheck   = "driver-check-earlier" // E's Check is that of the step before
	CarelessReading = "driver-old-reading"   // the clock was read before the receipt
	CarelessView    = "driver-one-view"      // one object of a process has the views of all its epochs
	CarelessJoin    = "driver-no-join"       // work is said to have returned when it is told to end
	CarelessStart   = "driver-starts-late"   // work begins although the claim has passed since the step
	CarelessBegin   = "driver-t0-earlier"    // the coordinator's first reading is from before its tenure was proven
	CarelessLease   = "driver-lease-ignored" // E's Check is that its machine leads, and the lease does not count
	CarelessMoves   = "driver-moves-dropped" // placement is not told of moves that were not carried out
)

// Careless lists the mutants of the driver: the name of each, and what it does.
func Careless() [][2]string {
	return [][2]string{
		{CarelessWitness, "A witness speaks when the process is dead, and its work is not."},
		{CarelessCheck, "E's Check is that of the step before."},
		{CarelessReading, "The clock was read before the receipt."},
		{CarelessView, "One object of a process has the views of all its epochs."},
		{CarelessJoin, "Work is said to have returned when it is told to end."},
		{CarelessStart, "Work begins although the claim has passed since the step."},
		{CarelessBegin, "The coordinator's first reading is from before its tenure was proven."},
		{CarelessLease, "E's Check is that its machine leads, and the lease does not count."},
		{CarelessMoves, "Placement is not told of moves that were not carried out."},
	}
}

// Package spin states the quorum protocol a second time, in Promela, and has the model checker spin
// explore every state of four small worlds. The models are written from the rules (R1 to R15) and
// not from the machine: where the two disagree, one of them is wrong. README.md says what each
// model leaves out and why nothing is lost by it.
//
// There is no code here beside the tests. They write the verifiers that spin generates, and their
// output, into temporary directories, and run as many at a time as go test -parallel allows.
// Without spin or gcc they are skipped, unless CI=true: then they fail. With -short or -race they
// are skipped as well.
package spin

// Package zombie plays the textbook story of fencing at a real resource, once for each step that a
// write consists of: a leader is frozen in front of the step, another one is elected, claims the
// resource and writes, and the first one resumes where it was, with the token that it had. None of
// its writes may be applied any more.
//
// The leaders are two processes that are elected among three peers; the test is the third. Freezing
// is what SIGSTOP does, by a process to itself when it comes to the step: at each read and each
// write of each connection, and wherever a resource says so ([Steps.Step]). The leader that wakes
// up goes on with its write although its term has ended: the resource must be protected from that.
//
// What both of them did, and when, is a history, which porcupine checks against the model
// of a fenced register.
package zombie

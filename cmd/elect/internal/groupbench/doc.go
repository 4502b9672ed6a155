// Package groupbench measures many elections at once: the keys of a group, named elections of a group, and as many
// elections in a store beside them. It starts real processes, has them lead all keys, kills some, and computes from what
// each recorded how long each key was led by nobody.
//
// [RunNode] is one such process; it may be called once in a process. It does what it is told by lines of JSON, answers
// each with one, and ends when its input ends. [Run] is the other side, and may be called once at a time in a process.
// All that it started is dead when it returns. Two leaders of one key at one instant, and a token that does not rise,
// are errors of the [Report].
package groupbench

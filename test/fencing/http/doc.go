// Package http has the proof that fence/fencehttp and elect fence proxy protect what is
// behind them: leaders that are processes, a proxy that is the finished command, and an
// upstream that is a process of its own and knows nothing of fencing. It shows, too, how
// shapes fail that look as good.
package http

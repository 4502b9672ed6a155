// Package redis breaks the masters that elect recipe redis and Redis Sentinel keep, by one schedule: real servers,
// electors and Sentinels, each with a network namespace a node, and clients that write keys of their own by go-redis
// and redis-py. It counts the acknowledged writes that are lost, those that an old master acknowledges after the
// switch, and the time for which clients cannot write.
//
// A [System] belongs to one goroutine. What it starts ends with it.
package redis

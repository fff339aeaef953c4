// Package ranges holds a deployment of several enclaves and hosts to what it promises:
// ranges move without losing what is newest, a stale or stray hand-over is refused, a
// superseded enclave answers nothing, and whoever is killed, nothing that was
// acknowledged is lost and service goes on.
//
// It has no code of its own, only tests. Those of moves run in one process over an
// embedded store that lies when told to; the campaign of kills runs the processes that
// an operator runs, over PostgreSQL: each of two enclaves and two hosts is killed once
// while 16 clients write, or as often as -rounds says:
//
//	go test ./sim/ranges -run TestKillAnyOne -v -timeout 0 -rounds 20
//
// and throughput with one enclave and with two, on whatever machine it is, by
//
//	go test ./sim/ranges -run TestThroughput -v -measure 10s
package ranges

// Package ranges holds a deployment of several enclaves and hosts to what it promises: ranges move without
// losing what is newest, a stale or stray hand-over is refused, a superseded enclave answers nothing, and
// whoever is killed, nothing acknowledged is lost and service goes on. It has only tests.
//
// Those of moves run in one process over an embedded store that lies when told to. The campaign
// of kills runs an operator's processes over PostgreSQL: each of two enclaves and two hosts is
// killed once while 16 clients write, or as often as -rounds says:
//
//	go test ./sim/ranges -run TestKillAnyOne -v -timeout 0 -rounds 20
//
// Throughput with one enclave and with two is measured by
//
//	go test ./sim/ranges -run TestThroughput -v -measure 10s
package ranges

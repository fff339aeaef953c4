// Package ranges holds a deployment of several enclaves and hosts to what it promises:
// ranges move without losing what is newest, a stale or stray hand-over is refused, a
// superseded enclave answers nothing, and whoever is killed, nothing that was
// acknowledged is lost and service goes on.
//
// It has no code of its own, only tests. Those of moves run in one process over an
// embedded store that lies when told to; the campaign of kills runs the processes that
// an operator runs, over PostgreSQL.
package ranges

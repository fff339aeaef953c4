// Package linear holds the tests that many clients at once see one order.
//
// One body, however often and concurrently it is sent, is one activity. Histories of 16 clients
// on one organization, on one whose host and enclave are lost again and again, and on 1,000 at
// once are checked for linearizability: there is an order of all requests that explains every
// answer and agrees with the clients' clocks.
package linear

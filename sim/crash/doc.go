// Package crash kills a running Cloister with kill -9, a thousand times if asked, and holds
// what is left against what its clients were told. It has only tests.
//
// Host, enclave and store run as a user's processes; eight clients send requests over HTTP; a proxy between
// host and enclave reads frames, so that a process can be killed at a chosen point of a request's way:
//
//   - unsent: the host has the request, the enclave has not;
//   - sent: the enclave has decided, its batch has not reached the store;
//   - storing: the batch, or a snapshot, has reached the host, around its commit;
//   - stored: the batch is stored, the reply is not out;
//   - acknowledged: a client has the reply;
//   - random and recovering: at any moment, and while the last kill is being recovered from.
//
// The oracle is what the clients wrote into files, synced to disk before each request and after
// each reply: every acknowledged activity must be there as it was told, every body must have
// made one activity and one effect, and nothing else may be there.
package crash

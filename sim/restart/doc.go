// Package restart holds a boot to what it promises of a host that lies about the time before: the log of
// a range says where every organization stands, and nothing is answered from anywhere else. It has only tests.
//
// A history is a deployment with organizations and sub-organizations over several boots, and copies
// of the store from many points of it. Then an enclave is killed, and the next one starts over one of the
// copies with a host that shows parts of others, or what it has made up. What was done, when it was
// copied and how it is attacked follows from a seed. The short run makes 20 of each kind of attack,
// the campaign as many as -seeds says, and -from makes some of them again:
//
//	go test ./sim/restart -run TestAttacks -v -timeout 0 -seeds 1000
//
// What all of a host's headers and tables cannot tell is that they are old, or that there are two of them: for that
// logs have witnesses. TestWitnessedAttacks is of a deployment with four, each attack with its own, which have signed
// what the history had them sign. Two kinds are controls: more witnesses lie or forget than the policy tolerates, and the
// attack must succeed.
//
//	go test ./sim/restart -run TestWitnessedAttacks -v -timeout 0 -seeds 1000
//
// Nearly all of such an attack is waiting, until a term has run out or a round of witnesses is over. So each has a time of its own
// (testing/synctest), which jumps ahead once everything waits, and a network in memory. There a message, a question to the store
// and a request to a witness take a while that is drawn: without that what is done at once would come in the same order each time.
//
// What the enclaves of such an attack have sent to their stores, what witnesses have signed, who was given a quorum's lines and
// what was answered is recorded, and each log of it taken through the model in sim/logmodel: it must be one of the histories
// in which that keeps its promises. The controls must break one of them. Logs that went on in another generation are beyond the model.
//
// Each rule of the log that the promises need has an attack that is refused by that rule alone: in a build with the tag
// cloister_insecure it is made against enclaves that leave the rule out, and must succeed.
//
//	go test ./sim/restart -tags cloister_insecure -run TestWithout -v
//
// Every copy must serve untouched, and what was refused must be served once the host is honest again. Ids and
// keys are not from the seed.
package restart

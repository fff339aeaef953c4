// Package insecure names the checks that a test may switch off in order to show
// that the attack which they stop would otherwise succeed. Only builds with the
// tag cloister_insecure can switch anything off; in every other build Skip is
// the constant false.
package insecure

// A Check is one thing that the enclave does against its host.
type Check uint8

// The checks.
const (
	Release    Check = iota // replies wait for their batch
	Inclusion               // old entries need an inclusion proof
	Tip                     // an organization must be at the tip that the log names, a log at its head
	Tag                     // sealed bytes must be authentic
	Name                    // sealed bytes open only under their own name
	Root                    // entries join only the history that they were made in
	Piece                   // pieces must have the hash that the snapshot names
	Owner                   // a batch answered with conflict or superseded fences
	Stamp                   // the signature must be over these bytes
	Path                    // the activity type must be of the path
	Target                  // the organization in the body decides, not the host
	Answer                  // what a search brings must be what was asked for
	Frame                   // frames are bounded and strict
	Cache                   // unstored organizations are never evicted
	Unstored                // unstored bytes are bounded
	Late                    // an acknowledgement is of the batch that was sent
	Repeat                  // a body seen before makes nothing new
	MAC                     // headers of a log are authentic
	Chain                   // headers follow one another
	Believed                // the log has named the tip table
	Page                    // pages have the hash that the tip table names
	Quorum                  // replies wait for a quorum of the log's witnesses
	Right                   // nothing is answered without the right to serve
	BootWait                // a boot waits until the one before has lost that
	Closed                  // a log is adopted once its witnesses have seen it closed, for this manifest
	Generation              // witnesses are not brought to a log of a generation that they are not for
	Recovered               // a recovery begins with the head that operators named
	Policy                  // a quorum is too large for faulty witnesses to give it twice (in attestation)
	Stored                  // a batch is stored before a witness sees it
	Sent                    // the right to serve counts from when a batch was sent
	CloseWait               // a boot names its successor once it may serve itself
	checks
)

var names = [checks]string{"release", "inclusion", "tip", "tag", "name", "root", "piece", "owner", "stamp", "path", "target", "answer", "frame", "cache", "unstored",
	"late", "repeat", "mac", "chain", "believed", "page", "quorum", "right", "bootwait", "closed", "generation", "recovered",
	"policy", "stored", "sent", "closewait"}

// String is the name under which a check is switched off.
func (c Check) String() string { return names[c] }

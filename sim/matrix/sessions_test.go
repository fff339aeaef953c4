package matrix_test

import (
	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// newSession is a log-in by the key k.
func (t *tenant) newSession(k laptop.KeyPair) object { return object{"publicKey": k.PublicKey} }

// sessions gives a user a log-in session and the root user a read-only one.
func (t *tenant) sessions() {
	k, user := t.newKey(), t.as["user"]
	t.doAs(user, "stamp_login", "ACTIVITY_TYPE_STAMP_LOGIN", t.newSession(k))
	t.as["session"] = keyed(user.user, k)
	r := t.do("create_read_only_session", "ACTIVITY_TYPE_CREATE_READ_ONLY_SESSION", object{})
	token := rig.Text(r, "session")
	t.as["session-ro"] = &principal{t.root.user, func([]byte) ([]wire.Header, error) {
		return []wire.Header{{Name: "X-Session", Value: token}}, nil
	}}
}

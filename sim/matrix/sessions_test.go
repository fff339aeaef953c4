package matrix_test

import (
	"cloister/shared/wire"
	"cloister/sim/client"
)

// sessions gives a user a log-in session and the root user a read-only one.
func (t *tenant) sessions() {
	k, user := client.NewKey(), t.as["user"]
	t.doAs(user, "STAMP_LOGIN", object{"publicKey": k.PublicKey})
	t.as["session"] = t.keyed(user.User, k)
	r := t.do("CREATE_READ_ONLY_SESSION", object{})
	token := client.Text(r, "session")
	t.as["session-ro"] = &principal{User: t.root.User, Stamp: func([]byte) ([]wire.Header, error) {
		return []wire.Header{{Name: "X-Session", Value: token}}, nil
	}}
}

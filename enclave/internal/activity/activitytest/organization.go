package activitytest

import "cloister/enclave/internal/org"

// SubOrganization are the parameters of a sub-organization with these root users.
func SubOrganization(name string, threshold any, users ...Object) Object {
	return Object{"subOrganizationName": name, "rootUsers": users, "rootQuorumThreshold": threshold}
}

// Organization returns the record of the organization itself.
func (w *World) Organization() *org.Organization {
	o, err := w.Tx().Organization()
	w.Must(err)
	return o
}

// Family creates a sub-organization with a wallet, a private key and two users.
func (w *World) Family() (sub *World, key string) {
	key = w.FreshKey()
	u := RootUser("A", APIKey("a", key))
	u["userEmail"] = "a@example.org"
	in := SubOrganization("Sub", 1, u, RootUser("B", APIKey("b", w.FreshKey())))
	in["wallet"] = Wallet("Wallet", EthAccount(0))
	sub = w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", in)["subOrganizationId"])
	sub.Run("CREATE_PRIVATE_KEYS_V2", Object{"privateKeys": []any{PrivateKey("k", "SECP256K1", "ETHEREUM")}})
	return sub, key
}

// Export marks every secret as exported.
func (w *World) Export() {
	tx := w.Tx()
	w.Must(tx.EachWallet(func(rec *org.Wallet) bool {
		c := *rec
		c.Exported = true
		w.Must(tx.PutWallet(&c))
		return true
	}))
	w.Must(tx.EachPrivateKey(func(rec *org.PrivateKey) bool {
		c := *rec
		c.Exported = true
		w.Must(tx.PutPrivateKey(&c, nil))
		return true
	}))
	w.Keep(tx)
}

// Keep applies a change like the ledger.
func (w *World) Keep(tx *org.Tx) {
	ws, err := tx.Writes()
	w.Must(err)
	w.State.Apply(ws)
}

// Secrets counts the wallets and private keys.
func (w *World) Secrets() (n int) {
	w.Must(w.Tx().EachWallet(func(*org.Wallet) bool { n++; return true }))
	w.Must(w.Tx().EachPrivateKey(func(*org.PrivateKey) bool { n++; return true }))
	return n
}

// Rule are the parameters of a policy that allows, with changed members.
func Rule(name string, more ...string) Object {
	p := Object{"policyName": name, "effect": "EFFECT_ALLOW", "notes": ""}
	for i := 0; i < len(more); i += 2 {
		p[more[i]] = more[i+1]
	}
	return p
}

// People creates users with keys that do not expire and returns their ids.
func (w *World) People(names ...string) []string {
	w.TB.Helper()
	var us []any
	for _, n := range names {
		us = append(us, User(n, APIKey("key", w.FreshKey())))
	}
	return List(w.Run("CREATE_USERS_V4", Object{"users": us}), "userIds")
}

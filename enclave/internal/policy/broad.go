package policy

import "slices"

// IsBroad tells whether a policy that allows, with this condition, allows so much that approvers must be warned, whoever has to
// approve: every activity, a change of the policies, a credential for anybody, or to sign or export with every key. It reads the
// compiled condition and rather answers yes: what a comparison excludes counts only if it names a value. A nil one is always true.
func IsBroad(condition *Program) bool {
	if condition == nil {
		return true
	}
	return isBroad(condition.root, grantable(), true)
}

// isBroad is IsBroad for an expression that decides about some kinds. With split, what is joined by && to several alternatives is looked
// at with each of them, once: with alternatives of alternatives there would be too many.
func isBroad(n *node, among kindSet, split bool) bool {
	_, no := known(n, true)
	among = among.minus(no)
	if n.op == opOr {
		return slices.ContainsFunc(n.kids, func(k *node) bool { return isBroad(k, among, split) }) // each allows by itself
	}
	if !(!bounds(n, isFact) && among.any(givesRights) || !bounds(n, isKey) && among.any(usesKey)) {
		return false
	}
	i := slices.IndexFunc(n.kids, func(k *node) bool { return k.op == opOr })
	if n.op != opAnd || i < 0 || !split {
		return true
	}
	others := slices.Delete(slices.Clone(n.kids), i, i+1)
	return slices.ContainsFunc(n.kids[i].kids, func(k *node) bool {
		return isBroad(&node{op: opAnd, kids: append(slices.Clone(others), k)}, among, false)
	})
}

// givesRights tells of a kind by which users can give themselves whatever other rights there are.
func givesRights(k *Kind) bool {
	switch k.Name {
	case "CREATE_POLICY", "CREATE_POLICIES", "UPDATE_POLICY", "CREATE_API_KEYS", "CREATE_AUTHENTICATORS", "CREATE_OAUTH_PROVIDERS", "CREATE_READ_WRITE_SESSION":
		return true
	}
	return false
}

// usesKey tells of a kind that signs with a key or hands it out.
func usesKey(k *Kind) bool { return k.Action == "SIGN" || k.Action == "EXPORT" }

// bounds tells whether an expression can only be true where something that is one of what has a value that is written in it.
func bounds(n *node, is func(*node) bool) bool { return boundsIf(n, true, is) }

// boundsIf is bounds where the expression has a value, true or false.
func boundsIf(n *node, yes bool, is func(*node) bool) bool {
	each := func(k *node) bool { return boundsIf(k, yes, is) }
	switch n.op {
	case opNot:
		return boundsIf(n.kids[0], !yes, is)
	case opAnd, opOr:
		if (n.op == opAnd) == yes {
			return slices.ContainsFunc(n.kids, each)
		}
		return !slices.ContainsFunc(n.kids, func(k *node) bool { return !each(k) })
	case opEq, opNe:
		return (n.op == opEq) == yes && (named(n.kids[0], n.kids[1], is) || named(n.kids[1], n.kids[0], is))
	case opIn:
		return yes && (named(n.kids[0], n.kids[1], is) || named(n.kids[1], n.kids[0], is))
	case opContains:
		return yes && (named(n.kids[1], n.kids[0], is) || named(n.kids[0], n.kids[1], is))
	case opAny:
		return yes && is(n.kids[0]) && bounds(n.kids[1], func(k *node) bool { return k.find(func(k *node) bool { return k.op == opName && k.root == 0 }) != nil })
	}
	return false
}

// named tells whether a node is one of what, and the other a text or number or a list of these.
func named(n, value *node, is func(*node) bool) bool {
	literal := func(k *node) bool { return k.op == opString || k.op == opInt }
	return (literal(value) || value.op == opList && !slices.ContainsFunc(value.kids, func(k *node) bool { return !literal(k) })) && !n.literal() && n.op != opList && is(n)
}

// isFact tells whether a node reads what an activity is about, beside its kind.
func isFact(n *node) bool { return n.find(func(n *node) bool { return n.root >= rootParams }) != nil }

// keyMembers are what tells a key from others.
var keyMembers = []string{"id", "label", "address", "tags", "static_properties", "sign_with"}

// isKey tells whether a node reads which key an activity uses.
func isKey(n *node) bool {
	return n.find(func(n *node) bool {
		if n.op != opMember {
			return n.root == rootWallets // of which each is compared
		}
		switch roots[n.kids[0].root].name {
		case "wallet", "wallet_account", "private_key", "secret", "activity.params":
			return slices.Contains(keyMembers, n.name)
		case "eth.tx", "tempo.tx":
			return n.name == "from"
		}
		return false
	}) != nil
}

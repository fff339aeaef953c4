package tag

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/org"
)

// explainBearer shows a user or a private key that gets or loses a tag.
func (g *tagging) explainBearer(tx *org.Tx, o *show.Object, text string) error {
	if g.typ == TypeUser {
		_, _, err := activity.ExplainUser(tx, o, "user", text)
		return err
	}
	_, err := activity.ExplainRecord(o, "privateKey", text, tx.PrivateKey, func(o *show.Object, k *org.PrivateKey) { activity.ExplainName(o, k.Name) })
	return err
}

func (g *tagging) explainBearers(tx *org.Tx, o *show.Object, key string, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	list := o.List(key)
	for _, text := range ids {
		if err := g.explainBearer(tx, list.Object(), text); err != nil {
			return err
		}
	}
	return nil
}

// explainNew shows a new tag. No policy can name it yet; one that looks at tags in general may read it.
func (g *tagging) explainNew(tx *org.Tx, o *show.Object, name string, ids []string) error {
	activity.ExplainWord(o, "name", name)
	if err := g.explainBearers(tx, o, "added", ids); err != nil || len(ids) == 0 {
		return err
	}
	return activity.ReadersOf(tx).ExplainAllTags(o)
}

// explainChange shows who gets a tag and who loses it, and which policies read it. Another name changes nothing for policies.
func (g *tagging) explainChange(tx *org.Tx, o *show.Object, text string, name *string, add, remove []string) error {
	var err error
	if len(add)+len(remove) > 0 {
		activity.ExplainMeaning(o, "Policies can allow or forbid something by this tag.")
		_, err = activity.ReadersOf(tx).ExplainTag(o, text)
	} else {
		_, err = activity.ExplainRecord(o, "tag", text, tx.Tag, func(o *show.Object, t *org.Tag) { activity.ExplainName(o, t.Name) })
	}
	if err != nil {
		return err
	}
	if activity.TextOf(name) != "" {
		activity.ExplainWord(o, "newName", *name)
	}
	if err := g.explainBearers(tx, o, "added", add); err != nil {
		return err
	}
	return g.explainBearers(tx, o, "removed", remove)
}

// explainGone shows tags that are deleted, the policies that read them, and those who lose them.
func (g *tagging) explainGone(tx *org.Tx, o *show.Object, ids []string) error {
	list, readers := o.List("tagsDeleted"), activity.ReadersOf(tx)
	var gone []org.ID
	for _, text := range ids {
		t, err := readers.ExplainTag(list.Object(), text)
		if err != nil {
			return err
		}
		if t != nil {
			gone = append(gone, t.ID)
		}
	}
	var bearers []string
	err := g.each(&activity.Tx{Tx: tx}, func(b bearer) {
		if len(withoutTags(b.tags, gone)) < len(b.tags) {
			bearers = append(bearers, b.id.String())
		}
	})
	if err != nil {
		return err
	}
	if n := len(bearers) - activity.MaxExplained; n > 0 {
		o.Uint("removedMore", uint64(n))
	}
	return g.explainBearers(tx, o, "removed", bearers[:min(len(bearers), activity.MaxExplained)])
}

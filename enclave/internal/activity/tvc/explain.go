package tvc

import (
	"encoding/hex"
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/org"
)

func explainOperator(o *show.Object, p *org.TVCOperator) { activity.ExplainName(o, p.Name) }

// explainSet shows the operators of a stored set.
func explainSet(tx *org.Tx, o *show.Object, set *org.TVCOperatorSet) error {
	activity.ExplainName(o, set.Name)
	o.Uint("threshold", uint64(set.Threshold))
	list := o.List("operators")
	for _, id := range set.Operators {
		if _, err := activity.ExplainRecord(list.Object(), "operator", id.String(), tx.TVCOperator, explainOperator); err != nil {
			return err
		}
	}
	return nil
}

// explain shows an operator set that an app gets.
func (s *setChoice) explain(tx *org.Tx, o *show.Object) error {
	if s.id != nil {
		var bad error
		_, err := activity.ExplainRecord(o, s.member, *s.id, tx.TVCOperatorSet, func(o *show.Object, set *org.TVCOperatorSet) { bad = explainSet(tx, o, set) })
		if err == nil {
			err = bad
		}
		return err
	}
	child := o.Object(s.member)
	activity.ExplainWord(child, "name", s.params.Name)
	child.Uint("threshold", uint64(s.params.Threshold))
	list := child.List("operators")
	for i := range s.params.NewOperators {
		entry := list.Object()
		activity.ExplainWord(entry, "name", s.params.NewOperators[i].Name)
		entry.Text("publicKey", s.params.NewOperators[i].PublicKey)
	}
	for _, id := range s.params.ExistingOperatorIDs {
		if _, err := activity.ExplainRecord(list.Object(), "operator", id, tx.TVCOperator, explainOperator); err != nil {
			return err
		}
	}
	return nil
}

// explain shows who approves what an app runs, and who holds shares of its key.
func (in *CreateApp) explain(tx *org.Tx, o *show.Object) error {
	activity.ExplainWord(o, "name", in.Name)
	if err := (&setChoice{"manifestSet", in.ManifestSetID, in.ManifestSetParams, 1}).explain(tx, o); err != nil {
		return err
	}
	if err := (&setChoice{"shareSet", in.ShareSetID, in.ShareSetParams, 2}).explain(tx, o); err != nil {
		return err
	}
	if activity.IsOn(in.EnableDebugModeDeployments) {
		activity.ExplainMeaning(o, "Deployments in debug mode are allowed: whoever runs the machine can read the app's key.")
		o.Warn(show.KeyLeaves)
	}
	return nil
}

// explain shows of which wallet an operator's keys are.
func (in *CreateOperator) explain(tx *org.Tx, o *show.Object) error {
	activity.ExplainWord(o, "name", in.OperatorName)
	if id := activity.TextOf(in.WalletID); id != "" {
		_, err := activity.ExplainRecord(o, "wallet", id, tx.Wallet, func(o *show.Object, w *org.Wallet) { activity.ExplainName(o, w.Name) })
		return err
	}
	activity.ExplainWord(o.Object("wallet"), "name", activity.TextOf(in.WalletName))
	return nil
}

// explain shows which of the operators whose shares a key is made in are known.
func (in *CreateQuorumKey) explain(tx *org.Tx, o *show.Object) error {
	names := map[string]string{}
	err := tx.EachTVCOperator(func(p *org.TVCOperator) bool {
		encrypt, _ := p.Keys()
		names[encrypt] = p.Name
		return true
	})
	if err != nil {
		return err
	}
	o.Uint("threshold", uint64(in.Threshold))
	list := o.List("operators")
	for _, key := range in.keys {
		entry := list.Object()
		if name := names[key]; name != "" {
			activity.ExplainName(entry, name)
		}
		entry.Text("encryptKey", key)
	}
	activity.ExplainMeaning(o, "A new key, of which each operator gets a share. So many of them together can recover it.")
	return nil
}

func explainApp(tx *org.Tx, o *show.Object, id string) error {
	_, err := activity.ExplainRecord(o, "app", id, tx.TVCApp, func(o *show.Object, a *org.TVCApp) { activity.ExplainName(o, a.Name) })
	return err
}

// explainDeployment shows a deployment and its app by the deployment's id.
func explainDeployment(tx *org.Tx, o *show.Object, id string) error {
	d, err := activity.ExplainRecord(o, "deployment", id, tx.TVCDeployment, func(o *show.Object, d *org.TVCDeployment) {
		o.Text("image", d.Image)
		o.Text("path", d.Path)
		o.Bool("debugMode", d.Debug)
		o.Bool("approved", d.Approved)
		o.Bool("deleted", d.Deleted)
	})
	if d == nil || err != nil {
		return err
	}
	return explainApp(tx, o, d.App.String())
}

// explain shows for which app a deployment is.
func (in *CreateDeployment) explain(tx *org.Tx, o *show.Object) error {
	if err := explainApp(tx, o, in.AppID); err != nil {
		return err
	}
	o.Text("image", in.PivotContainerImageURL)
	o.Text("path", in.PivotPath)
	o.Plain("programSha256", hex.EncodeToString(in.expected[:]))
	activity.ExplainMeaning(o, "It runs, with the app's key, once enough operators have approved its manifest.")
	if activity.IsOn(in.DebugMode) {
		o.Warn(show.KeyLeaves)
	}
	return nil
}

// explainLive shows which deployment is asked from now on, and which one was.
func explainLive(tx *org.Tx, o *show.Object, id string) error {
	if err := explainDeployment(tx, o, id); err != nil {
		return err
	}
	text, err := org.ParseID(id)
	if err != nil {
		return nil // Run refuses it
	}
	d, err := tx.TVCDeployment(text)
	if d == nil || err != nil {
		return err
	}
	app, err := tx.TVCApp(d.App)
	if app == nil || err != nil {
		return err
	}
	activity.ExplainMeaning(o, "Users of the app reach this deployment from then on.")
	if app.Live.Zero() {
		return nil
	}
	_, err = activity.ExplainRecord(o, "liveNow", app.Live.String(), tx.TVCDeployment, func(o *show.Object, d *org.TVCDeployment) {
		o.Text("image", d.Image)
		o.Text("path", d.Path)
	})
	return err
}

// explain shows whose approvals a manifest gets.
func (in *CreateApprovals) explain(tx *org.Tx, o *show.Object) error {
	m, err := activity.ExplainRecord(o, "manifest", in.ManifestID, tx.TVCManifest, func(o *show.Object, m *org.TVCManifest) {
		o.Uint("approvals", uint64(len(m.Approvals)))
	})
	if err != nil {
		return err
	}
	if m != nil {
		if err := explainDeployment(tx, o, m.Deployment.String()); err != nil {
			return err
		}
	}
	list := o.List("operators")
	for i := range in.Approvals {
		if _, err := activity.ExplainRecord(list.Object(), "operator", in.Approvals[i].OperatorID, tx.TVCOperator, explainOperator); err != nil {
			return err
		}
	}
	return nil
}

// explain shows whose share goes to which deployment.
func (in *PostShare) explain(tx *org.Tx, o *show.Object) error {
	if err := explainDeployment(tx, o, in.DeploymentID); err != nil {
		return err
	}
	_, err := activity.ExplainRecord(o, "operator", in.ShareApprovalBundle.OperatorID, tx.TVCOperator, explainOperator)
	activity.ExplainMeaning(o, "The operator hands on a share of the app's key, encrypted to the enclave that waits for it. With enough shares it has the whole key.")
	return err
}

// explain shows which operator's share goes to which deployment.
func (in *ReEncryptShare) explain(tx *org.Tx, o *show.Object) error {
	o.Warn(show.KeyLeaves)
	activity.ExplainMeaning(o, "A share of the app's key is given to the enclave that waits for it. With enough shares it has the whole key.")
	if err := explainDeployment(tx, o, in.DeploymentID); err != nil {
		return err
	}
	var found *org.TVCOperator
	err := tx.EachTVCOperator(func(p *org.TVCOperator) bool {
		if p.PublicKey == in.pair {
			found = p
		}
		return found == nil
	})
	if err == nil && found != nil {
		explainOperator(o.Object("operator"), found)
	}
	return err
}

// explainDeletedApp shows an app that is deleted, with the images of its deployments.
func explainDeletedApp(tx *org.Tx, o *show.Object, text string) error {
	if err := explainApp(tx, o, text); err != nil {
		return err
	}
	id, err := org.ParseID(text)
	if err != nil {
		return nil // Run refuses it
	}
	var images []string
	err = tx.EachTVCDeployment(func(d *org.TVCDeployment) bool {
		if d.App == id && !d.Deleted && !slices.Contains(images, d.Image) {
			images = append(images, d.Image)
		}
		return true
	})
	activity.ExplainList(o, "images", images[:min(len(images), activity.MaxExplained)])
	return err
}

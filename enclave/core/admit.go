package core

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/organization"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/stamp"
	"cloister/shared/wire"
)

// admission tells what an admission made.
type admission struct {
	OrganizationID string `json:"organizationId"`
	RootUserID     string `json:"rootUserId"`
	RootAPIKeyID   string `json:"rootApiKeyId"`
}

// createOrganization makes a first organization, stamped by the manifest's admission key.
// Entry 0 of its ledger is no activity. A body that is sent again gets the same answer, from
// the organization's records.
func (c *Core) createOrganization(ctx context.Context, call *wire.Call, v *visit) ([]byte, error) {
	who, err := c.stamps.Verify(stampHead(call), call.Body)
	if err != nil {
		return nil, err
	}
	if who.Scheme() != stamp.P256 || who.PublicKey() != hex.EncodeToString(c.serving.admission) {
		return nil, fault.WithCode(fault.Unauthenticated, "PUBLIC_KEY_NOT_FOUND", "not the admission key that the manifest names")
	}
	in, err := organization.ParseFirst(who.Body())
	if err != nil {
		return nil, err
	}
	id := org.ID(c.serving.organizationID(who.Fingerprint()))
	out := admission{OrganizationID: id.String()}
	err = v.earlierAdmission(ctx, id, &out)
	if errors.Is(err, ledger.ErrNoOrganization) {
		if err := checkTime(c.now(), in.TimestampMs); err != nil {
			return nil, err
		}
		err = v.admitNew(ctx, id, in, org.Hash(who.Fingerprint()), &out)
	}
	if err != nil {
		return nil, err
	}
	if err := v.Wait(ctx); err != nil {
		return nil, err
	}
	return json.Marshal(&out)
}

// earlierAdmission fills in what an earlier admission by this body made.
func (v *visit) earlierAdmission(ctx context.Context, id org.ID, out *admission) error {
	return v.Turn(ctx, id, func(t *ledger.Turn) error {
		tx := t.Begin(v.core.now())
		rec, err := tx.Organization()
		if err != nil || len(rec.RootUsers) == 0 {
			return err
		}
		out.RootUserID = rec.RootUsers[0].String()
		u, err := tx.User(rec.RootUsers[0])
		if err != nil || u == nil || len(u.APIKeys) == 0 {
			return err
		}
		out.RootAPIKeyID = u.APIKeys[0].ID.String()
		return nil
	})
}

func (v *visit) admitNew(ctx context.Context, id org.ID, first *organization.FirstOrganization, fp org.Hash, out *admission) error {
	c, now := v.core, v.core.now()
	l, err := v.Look(ctx, id)
	if err != nil {
		return err
	}
	child, err := l.NewChild(id, now)
	if err != nil {
		return err
	}
	tx := child.Tx()
	root, key, err := first.Make(&activity.Tx{Tx: tx, Limits: c.cfg.Quotas, Vault: c.vault(id, child.Key(), 1), Rand: mixed{c}, Keys: c.keys})
	if err != nil {
		return err
	}
	out.RootUserID, out.RootAPIKeyID = root.String(), key.String()
	v.Batch, err = l.Create(child, &org.Entry{Fingerprint: fp, CreatedMs: now, TimeMs: now}, tx)
	return err
}

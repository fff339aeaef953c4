package store

import "cloister/shared/wire"

// CheckExtension checks the limits of an Extend's batch and sends. Errors are ErrRefused.
func CheckExtension(b *wire.Batch, sends []SendRow) error {
	if err := CheckBatch(b); err != nil {
		return err
	}
	entries := map[wire.SendID]bool{}
	for i := range b.Entries {
		e := &b.Entries[i]
		if len(e.Sends) > 0 {
			return refuse("an entry with marks of sends")
		}
		entries[wire.SendID{Organization: e.Organization, Seq: e.Seq}] = true
	}
	for i := range sends {
		s := &sends[i]
		if !entries[wire.SendID{Organization: s.Organization, Seq: s.Seq}] {
			return refuse("a send of entry %d of another batch", s.Seq)
		}
		if err := checkSendRow(s); err != nil {
			return err
		}
	}
	return nil
}

// Extends is the verdict on a batch that is to extend a range with the ownership row owned.
func Extends(owned wire.Owned, b *wire.Batch) wire.Verdict {
	switch {
	case owned.Epoch > 0 && !owned.Released:
		return wire.VerdictSuperseded
	case b.Epoch > owned.Epoch && b.Number == 1, b.Epoch == owned.Epoch && b.Boot == owned.Boot && b.Number == owned.Batches+1:
		return wire.VerdictStored
	}
	return wire.VerdictConflict
}

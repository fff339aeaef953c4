// What approvers are shown of random payloads, held against what each network's own library reads of the same bytes: every
// member, every warning, and the digests to be signed. DECODED_COUNT is how many of each kind, 500 unless it is set;
// DECODED_SEED makes others.
import "./decoded-ethereum.mjs";
import "./decoded-solana.mjs";

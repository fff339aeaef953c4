// What approvers are shown of random payloads, held against what each network's own library reads of the same bytes: every
// member, every warning, and the digests to be signed. DECODED_COUNT is how many of each kind, 500 unless it is set, and
// DECODED_SEED makes others.
import "./decoded-bitcoin.mjs";
import "./decoded-ethereum.mjs";
import "./decoded-solana.mjs";
import "./decoded-tempo.mjs";
import "./decoded-tron.mjs";
